from draftmill.engines.protocol import Load
from draftmill.mill.progress import Progress


def test_a_server_that_moves_is_not_idle() -> None:
    progress = Progress()
    for second in range(100):
        progress.seen(second, Load(4, 0, kv_used=100 + second))
        assert progress.idle(second, 4) <= 1


def test_one_that_stands_still_is_whatever_its_queue_does() -> None:
    progress = Progress()
    for second in range(100):
        progress.seen(second, Load(4, second, kv_used=100, generation_rate=500.0, work=7.0))
        progress.idle(second, 4)
    assert progress.idle(99, 4) == 99


def test_ids_and_answers_are_progress_where_the_load_says_nothing() -> None:
    progress = Progress()
    assert progress.idle(0, 2) == 0
    progress.heard(30)
    progress.seen(50, None)
    assert progress.idle(70, 2) == 40


def test_time_counts_from_the_first_request() -> None:
    progress = Progress()
    progress.seen(0, Load(0, 0))
    assert progress.idle(1000, 0) == 0
    assert progress.idle(1001, 1) == 0
    assert progress.idle(1011, 1) == 10
    assert progress.idle(1012, 0) == 0
    assert progress.idle(1013, 1) == 0
