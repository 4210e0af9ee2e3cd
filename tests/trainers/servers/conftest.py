"""A server that speaks as vLLM does but generates by rule, so that it can be held, hung, killed and revived."""

import contextlib
import json
import random
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from safetensors.torch import load_file

from rlvr.trainers.engines.server_process import WORKER_EXTENSION

EOS = 1

# As vLLM 0.32 words it, of a server with two engines.
METRICS = """\
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{{engine="0",model_name="a {{b}} 9"}} {waiting}.0
vllm:num_requests_waiting{{engine="1",model_name="a {{b}} 9"}} 0.0
vllm:num_requests_waiting_by_reason{{engine="0",model_name="a {{b}} 9",reason="capacity"}} 7.0
vllm:prompt_tokens_total{{engine="0",model_name="a {{b}} 9"}} 5.0
vllm:prompt_tokens_total{{engine="1",model_name="a {{b}} 9"}} 6.0
vllm:generation_tokens_total{{engine="0",model_name="a {{b}} 9"}} {tokens}.0
vllm:generation_tokens_total{{engine="1",model_name="a {{b}} 9"}} 1.2e+02
"""


class RuleServer:
    """Token `place` of a completion is a function of its seed, its place in the segment and the weights.

    Attributes:
        hold_at: tokens after which every completion waits for `release`; None lets them run.
        hung: completions that come are never answered, unless they are interrupted.
        late: completions that come wait in a queue, where only `/abort_requests` finds them.
        unwell: says so when asked for its health.
        stale: names of weights that it says it did not take over.
        status: of the answer to the next completions, to play broken.
        waiting: requests that it says wait in its queue; None if it says nothing of what it has to do.
        works: has generated something more each time that it is asked.
        asked: the requests for completions, as they came.
        calls: the paths of the other requests, as they came.
    """

    def __init__(self, **facts):
        self.facts = {
            "max_model_len": 200,
            "logprobs_mode": "processed_logprobs",
            "max_num_seqs": 64,
            "chunked": False,
            "extension": WORKER_EXTENSION,
            "device": "cpu",
            "dtype": "torch.float32",
            "sizes": {},
            "model": "/no/such/folder",
            **facts,
        }
        self.hold_at = None
        self.hung = self.late = self.unwell = False
        self.status = 200
        self.waiting = None
        self.works = True
        self.tokens = 0
        self.asked = []
        self.calls = []
        self.changed = threading.Condition()
        self.shift = 0
        self.version = "default"
        self.lies_about_version = False
        self.stale = []
        self.paused = False
        self.epochs = []
        self.abort_epoch = self.queue_epoch = 0
        self.port = 0
        self.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        """Begin to listen, at the port of last time if there was one; the weights are those of the beginning."""
        self.shift, self.version, self.paused = 0, "default", False
        self.sockets = set()
        self.http = _Http(("127.0.0.1", self.port), _Handler)
        self.http.owner = self
        self.port = self.http.server_port
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def kill(self):
        """Be gone, with every connection."""
        self.http.shutdown()
        self.http.server_close()
        for connection in list(self.sockets):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.release()

    def release(self):
        with self.changed:
            self.hold_at = None
            self.hung = self.late = False
            self.changed.notify_all()

    def wait_for(self, condition):
        """Wait until something is true of this server."""
        with self.changed:
            assert self.changed.wait_for(condition, timeout=60), "it never came to that"

    def complete(self, request):
        with self.changed:
            self.asked.append(request)
            epoch, queued = self.abort_epoch, self.queue_epoch
            self.epochs.append(epoch)
            self.changed.notify_all()
            try:
                self.changed.wait_for(lambda: not self.late or self.queue_epoch > queued)
                self.changed.wait_for(lambda: not self.hung or self.abort_epoch > epoch)
                if self.abort_epoch == epoch:
                    self.changed.wait_for(lambda: not self.paused or self.queue_epoch > queued)
                return self._generate(request, epoch)
            finally:
                self.epochs.remove(epoch)
                self.changed.notify_all()

    @property
    def running(self):
        return len(self.epochs)

    def _generate(self, request, epoch):
        draws = random.Random(request["seed"])
        ids, reason = [], "length"
        while len(ids) < request["max_tokens"]:
            if self.hold_at is not None and len(ids) >= self.hold_at:
                self.changed.wait_for(lambda: self.hold_at is None or self.abort_epoch > epoch)
            if self.abort_epoch > epoch:
                reason = "abort"
                break
            ids.append(10 + (draws.randrange(80) + self.shift) % 80)
            if draws.random() < 0.1 and len(ids) >= 4:
                ids.append(EOS)
                reason = "stop"
                break
        ids = ids[: request["max_tokens"]]
        return {
            "token_ids": ids,
            "logprobs": {"token_logprobs": [-1.0 - self.shift] * len(ids)},
            "finish_reason": reason,
        }

    def answer(self, path, body):
        with self.changed:
            self.calls.append(path)
            if path == "/health":
                return (503, {}) if self.unwell else (200, {})
            if path == "/metrics" and self.waiting is not None:
                self.tokens += self.works
                self.changed.notify_all()
                return 200, METRICS.format(waiting=self.waiting, tokens=self.tokens)
            if path == "/v1/models":
                return 200, {"data": [{"id": "rule", "max_model_len": self.facts["max_model_len"]}]}
            if path == "/server_info":
                return 200, {"vllm_config": self._config()}
            if path == "/weight_info":
                return 200, {"weight_version": "other" if self.lies_about_version else self.version}
            if path in ("/pause", "/abort_requests"):
                self.paused = self.paused or path == "/pause"
                self.abort_epoch += 1
                self.queue_epoch += path == "/abort_requests"
                self.changed.notify_all()
                self.changed.wait_for(lambda: self.late or all(epoch == self.abort_epoch for epoch in self.epochs))
            elif path == "/resume":
                self.paused = False
            elif path == "/update_weight_version":
                self.version = body["new_version"]
            elif path == "/collective_rpc" and body["method"] == "model_sizes":
                known = self.facts["sizes"] is not None
                return (200, {"results": [self.facts["sizes"]]}) if known else (500, {"error": "no such method"})
            elif path == "/collective_rpc":
                waiting = self.paused and all(epoch == self.abort_epoch for epoch in self.epochs)
                assert waiting, "weights were changed while something was generated"
                checks = self.facts["extension"] == WORKER_EXTENSION
                assert body["method"] == ("load_checked" if checks else "reload_weights")
                (folder,) = map(Path, body["kwargs"].values())
                if not folder.is_dir():
                    return 500, {"error": {"message": "no such folder"}}
                tensors = {name: t for file in folder.glob("*.safetensors") for name, t in load_file(file).items()}
                self.shift = int(tensors["shift"])
                self.changed.notify_all()
                return 200, {"results": [self.stale]}
            elif path != "/reset_prefix_cache":
                return 404, {"error": "no such path"}
            self.changed.notify_all()
            return 200, {"success": True}

    def _config(self):
        facts = self.facts
        return {
            "model_config": {name: facts[name] for name in ("logprobs_mode", "dtype", "model")},
            "scheduler_config": {"max_num_seqs": facts["max_num_seqs"], "enable_chunked_prefill": facts["chunked"]},
            "device_config": {"device": facts["device"]},
            "parallel_config": {"worker_extension_cls": facts["extension"]},
            "weight_transfer_config": None,
        }


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass  # a client that went away


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        self.server.owner.sockets.add(self.connection)

    def finish(self):
        self.server.owner.sockets.discard(self.connection)
        super().finish()

    def do_GET(self):
        self._reply(*self.server.owner.answer(urlsplit(self.path).path, None))

    def do_POST(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or b"null")
        owner, path = self.server.owner, urlsplit(self.path).path
        if path != "/v1/completions":
            self._reply(*owner.answer(path, body))
        elif owner.status != 200:
            self._reply(owner.status, {"error": {"message": "out of order"}})
        else:
            self._reply(200, {"choices": [owner.complete(body)]})

    def _reply(self, status, content):
        data = (content if isinstance(content, str) else json.dumps(content)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def rule_server():
    """Starts servers, and ends them with the test."""
    started = []

    def start(**facts):
        started.append(RuleServer(**facts))
        return started[-1]

    yield start
    for server in started:
        server.kill()
