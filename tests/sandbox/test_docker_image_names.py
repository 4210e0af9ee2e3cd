from __future__ import annotations

import pytest

from rlvr.sandbox.image_names import checked_image, checked_tag
from rlvr.verifiers import UserError

DIGEST = f"sha256:{'0a' * 32}"


@pytest.mark.parametrize(
    ("tag", "name", "version"),
    [
        ("a", "a", "latest"),
        ("rlvr-sandbox:host", "rlvr-sandbox", "host"),
        ("a.b/c__d/e--f:V_1.0-x", "a.b/c__d/e--f", "V_1.0-x"),
        ("localhost:5000/a", "localhost:5000/a", "latest"),
        ("Registry.example-1.org:5000/a/b:1", "Registry.example-1.org:5000/a/b", "1"),
        ("[::1]:5000/a", "[::1]:5000/a", "latest"),
    ],
)
def test_a_tag_is_read_as_docker_does(tag: str, name: str, version: str) -> None:
    assert checked_tag(tag) == (name, version)
    assert checked_image(tag, "It") == tag
    assert checked_image(f"{tag}@{DIGEST}", "It").endswith(DIGEST)


@pytest.mark.parametrize(
    "tag",
    ["", "BAD NAME", "Bad", "a b", "a:", ":a", "a/", "/a", "a//b", "-a", "a-", "a..b", "a___b", "a:b:c", "a:-b", "ä"],
)
def test_what_docker_refuses_is_refused_in_one_sentence(tag: str) -> None:
    refused(tag)


@pytest.mark.parametrize("tag", ["a\n", f"a:{'b' * 129}", f"a/{'b' * 256}", "-x.org/a", "a@sha256:1", "a:b/c/D"])
def test_what_only_looks_like_a_name_is_refused(tag: str) -> None:
    refused(tag)


def refused(tag: str) -> None:
    with pytest.raises(UserError, match=r"^The image cannot be called .*; give it a name"):
        checked_tag(tag)
    with pytest.raises(UserError, match=r"^IMAGE is .*, which is no name of a Docker image"):
        checked_image(tag, "IMAGE")


def test_an_image_may_be_asked_for_by_its_id_but_not_called_by_one() -> None:
    for image in (DIGEST, DIGEST.partition(":")[2], "0a0a0a"):
        assert checked_image(image, "It") == image
    with pytest.raises(UserError, match="cannot be called"):
        checked_tag("0a" * 32)
    with pytest.raises(UserError, match="cannot be called"):
        checked_tag(f"a@{DIGEST}")
