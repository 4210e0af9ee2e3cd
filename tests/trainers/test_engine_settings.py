import pytest
from pydantic import ValidationError

from rlvr.trainers.engine_settings import EngineSettings


@pytest.mark.parametrize(
    "url",
    ["", "127.0.0.1:8000", "ftp://127.0.0.1:8000", "http://", "http://[::1", "http://127.0.0.1:99999",
     "http://127.0.0.1:port", "http://127.0.0.1:8000/v1", "http://127.0.0.1:8000?key=1"],
)  # fmt: skip
def test_what_is_no_address_of_a_server_is_said(url):
    with pytest.raises(ValidationError, match=r"is no address; write it as in http://127\.0\.0\.1:8000"):
        EngineSettings(kind="vllm-server", servers=(url,))


def test_addresses_are_taken_as_they_are():
    urls = ("http://127.0.0.1:8000", "https://gpu-1.example.org/", "http://[::1]:8001", "http://localhost")
    assert EngineSettings(kind="vllm-server", servers=urls).servers == urls


def test_a_server_that_is_named_twice_is_said():
    with pytest.raises(ValidationError, match="named more than once"):
        EngineSettings(kind="vllm-server", servers=("http://127.0.0.1:8000", "http://127.0.0.1:8000/"))
