"""Playing episodes: completions out of the engine's stream into the environment, and its replies into prompts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..envs import TextVectorEnv
from ..envs.episode import Written
from ..verifiers.extraction import ThinkStyle
from .draft import Draft
from .engines import Completion, Engine, Sampling
from .next_message import message_ids, warn_if_rewritten


@dataclass
class _Party:
    """Rows that are sent to the environment together: those that go on, and their completions of this turn so far."""

    rows: list[int]
    written: dict[int, Written]


class Play:
    """Episodes that are played side by side, each at its own pace.

    A completion is sent to the environment when the engine has finished it, and verified while others are still being
    generated. Where an episode goes on, its next prompt is added to those that are being streamed; an engine that does
    not take it into its running batch has it afterwards, in a round of its own. Then the round holds all episodes that
    go on, in the order of their rows: what is generated together does not depend on how long verifying took.

    Args:
        envs: in which the episodes have begun.
        engine: generates the completions.
        tokenizer: of the policy.
        eos_ids: every id that ends a completion.
        sampling: how tokens are drawn.
        think: how the model marks its reasoning.
        longest: how many tokens a prompt may have.
        drafts: the episodes, one a row.
        parties: which rows are sent to the environment together, once the last of them has its completion.
    """

    def __init__(
        self,
        envs: TextVectorEnv,
        engine: Engine,
        tokenizer: Any,
        eos_ids: Collection[int],
        sampling: Sampling,
        think: ThinkStyle,
        longest: int,
        drafts: Sequence[Draft],
        parties: Sequence[Sequence[int]],
    ) -> None:
        self.envs = envs
        self.engine = engine
        self.tokenizer = tokenizer
        self.eos_ids = eos_ids
        self.sampling = sampling
        self.think = think
        self.longest = longest
        self.drafts = drafts
        self._parties = [_Party(list(rows), {}) for rows in parties]
        self._party_of = {row: number for number, party in enumerate(self._parties) for row in party.rows}
        self._asked: list[int] = []
        self._prompts: list[list[int]] = []
        self._seeds: list[int] = []

    def run(self) -> Iterator[int]:
        """Play all to their end; gives the row of each when it is over."""
        for party in self._parties:
            self._ask(party, party.rows)
        while self._asked or self.envs.in_flight:
            yield from self._stream()
            while self.envs.in_flight:
                yield from self._hear(1)
            self._ask_in_order()

    def _stream(self) -> Iterator[int]:
        """Generate for the prompts there are and, if the engine takes them, for those that come up meanwhile."""
        at_first, finished = len(self._asked), set[int]()
        for place, completion in self.engine.stream(self._prompts, self.sampling, self._seeds) if at_first else ():
            if place in finished:
                raise AssertionError(f"the engine gave a second completion for prompt {place}")
            finished.add(place)
            self._write(self._asked[place], completion)
            yield from self._hear(0)
        missing = next((place for place in range(at_first) if place not in finished), None)
        if missing is not None:
            raise AssertionError(f"the engine ended its stream without a completion for prompt {missing}")
        self._keep([place for place in range(len(self._asked)) if place not in finished])

    def _ask(self, party: _Party, rows: list[int]) -> None:
        """Begin the next turn of a party's rows."""
        party.rows, party.written = rows, {}
        for row in rows:
            draft = self.drafts[row]
            if draft.has_room:
                self._asked.append(row)
                # The seed first: an engine that looks for further prompts in another thread finds it there.
                self._seeds.append(draft.turn_seed)
                self._prompts.append(list(draft.ids))
        for row in rows:
            if not self.drafts[row].has_room:
                self._write(row, Completion([], [], [], "length"))

    def _write(self, row: int, completion: Completion) -> None:
        """Note a completion, and send those of its party if it is the last of them."""
        text = decode_completion(self.tokenizer, completion, self.eos_ids)
        self.drafts[row].write(completion, text, self.engine.version)
        party, cut_off = self._parties[self._party_of[row]], completion.finish_reason == "length"
        party.written[row] = Written(text, last=cut_off, completion_tokens=len(completion.ids), think=self.think)
        if len(party.written) == len(party.rows):
            self.envs.send([party.written[member] for member in party.rows], party.rows)

    def _hear(self, count: int) -> Iterator[int]:
        """Take the replies that are there, once they are `count`; gives the rows that are over."""
        rows, messages, rewards, terminated, truncated, _ = self.envs.recv(count)
        going_on: dict[int, list[int]] = {}
        for place, row in enumerate(rows.tolist()):
            self.drafts[row].end_turn(float(rewards[place]), bool(truncated[place]))
            if terminated[place] or truncated[place]:
                yield row
            else:
                self._add_message(row, messages[place])
                going_on.setdefault(self._party_of[row], []).append(row)
        for number, members in going_on.items():
            self._ask(self._parties[number], members)

    def _add_message(self, row: int, message: str) -> None:
        draft, conversation = self.drafts[row], self.envs.conversation(row)
        warn_if_rewritten(self.tokenizer, conversation)
        # What came before the completion and the message.
        before = conversation[:-2]
        ids = message_ids(self.tokenizer, before, message, draft.completion.ids, self.eos_ids)
        draft.hear(ids, self.longest)

    def _ask_in_order(self) -> None:
        self._keep(sorted(range(len(self._asked)), key=self._asked.__getitem__))

    def _keep(self, places: Sequence[int]) -> None:
        self._asked, self._prompts, self._seeds = (
            [self._asked[place] for place in places],
            [self._prompts[place] for place in places],
            [self._seeds[place] for place in places],
        )


def decode_completion(tokenizer: Any, completion: Completion, eos_ids: Collection[int]) -> str:
    """The text that the verifiers see: all but the EOS, special tokens such as `<think>` included."""
    ids = completion.ids
    if completion.finish_reason == "stop" and ids and ids[-1] in eos_ids:
        ids = ids[:-1]
    return str(tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))
