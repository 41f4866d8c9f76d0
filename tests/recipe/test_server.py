import pytest

from draftmill.recipe.server import plain_url, server_of


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("http://127.0.0.1:8000", "http://localhost:8000", True),
        ("http://127.0.0.1:8000/", "HTTP://LOCALHOST:8000".lower(), True),
        ("http://[::1]:8000", "http://0.0.0.0:8000", True),
        ("http://gpu-1", "http://GPU-1:80/", True),
        ("https://gpu-1", "https://gpu-1:443", True),
        ("http://gpu-1/a/", "http://gpu-1/a", True),
        ("http://gpu-1/a", "http://gpu-1/b", False),
        ("http://gpu-1", "https://gpu-1", False),
        ("http://gpu-1:8000", "http://gpu-2:8000", False),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8001", False),
        ("http://a:x", "http://b:x", False),  # no URLs at all, which is told elsewhere
        ("http://[", "http://[[", False),
    ],
)
def test_which_urls_are_of_the_same_server(one: str, other: str, same: bool) -> None:
    assert (server_of(one) == server_of(other)) is same


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "http://", "http://me:secret@a", "http://a:99999", "http://a:x"])
def test_what_is_no_url_of_a_server(url: str) -> None:
    with pytest.raises(ValueError, match="is not a server's URL") as caught:
        plain_url(url)
    assert "secret" not in str(caught.value)


def test_a_url_is_kept_as_it_was_written() -> None:
    assert plain_url("http://LocalHost:8000/v1/") == "http://LocalHost:8000/v1"
