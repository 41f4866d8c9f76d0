from draftmill.engines import metrics

TEXT = """# HELP vllm:num_requests_running Number of requests.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a b}c"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 4.0
vllm:cache_config_info{block_size="128",user_specified_block_size="False",num_gpu_blocks="364"} 1.0
llamacpp:requests_deferred 2
llamacpp:predicted_tokens_seconds 1.5e+2
"""


def test_metrics_are_summed_over_their_labels() -> None:
    totals = metrics.totals(TEXT)
    assert totals["vllm:num_requests_running"] == 7
    assert totals["llamacpp:requests_deferred"] == 2
    assert totals["llamacpp:predicted_tokens_seconds"] == 150
    assert metrics.totals("") == {}


def test_a_label_is_found_by_its_whole_name() -> None:
    assert metrics.label(TEXT, "vllm:cache_config_info", "block_size") == "128"
    assert metrics.label(TEXT, "vllm:cache_config_info", "num_gpu_blocks") == "364"
    assert metrics.label(TEXT, "vllm:cache_config_info", "blocks") is None
    assert metrics.label(TEXT, "other", "block_size") is None


def test_a_rate_needs_two_looks_and_survives_a_restart() -> None:
    rate = metrics.Rate()
    assert rate.of(100) is None
    second = rate.of(200)
    assert second is not None and second > 0
    assert rate.of(5) is None
