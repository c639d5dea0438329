"""Chapters 6.6 and 27: TF_POPLAR_FLAGS and the variables beside it."""

import programs
import pytest

from tensorflow.python import ipu
from ipu_tensorflow import flags

PUBLISHED = """use_ipu_model use_synthetic_data synthetic_data_categories synthetic_data_initializer executable_cache_path
max_compilation_threads max_infeed_threads null_data_feed while_loop_brute_force_max_trip_count log_cycle_count show_progress_bar
on_demand_device_poll_time on_demand_device_timeout sync_replica_start dump_schedule_as_dot fallback_scheduler save_interval_report
save_vertex_graph tensor_map_file_path help"""
Category = ipu.utils.SyntheticDataCategory


def test_each_published_flag_is_known():
    assert set(flags.FIELDS) == set(PUBLISHED.split())


@pytest.mark.parametrize("space", [" ", "\t", "\n", "  "])
def test_flags_stand_between_white_space_with_one_dash_or_two(space):
    found = flags.parse(space.join(["", "-use_ipu_model", "--executable_cache_path=/a=b", "--log_cycle_count=3", ""]))
    assert (found.use_ipu_model, found.executable_cache_path, found.log_cycle_count) == (True, "/a=b", 3)


def test_the_defaults_are_those_published():
    found = flags.parse("")
    assert (found.on_demand_device_poll_time, found.on_demand_device_timeout) == (1000, 3_600_000)
    assert found.show_progress_bar == "auto" and not found.use_ipu_model and not found.use_synthetic_data


@pytest.mark.parametrize(
    "text, said",
    [
        ("--use_ipu_modle", "unknown flag '--use_ipu_modle'. Did you mean '--use_ipu_model'\\?"),
        ("use_ipu_model", "unknown flag 'use_ipu_model'"),
        ("--nonsense", "(?s)unknown flag '--nonsense'. Known are:.*--use_ipu_model: .*--help: "),
        ("--synthetic_data_categories=infeed,weights", "unknown category 'weights'. There are: seed, infeed, outfeed"),
        ("--use_ipu_model=maybe", "--use_ipu_model=maybe is neither true nor false"),
        ("--max_infeed_threads", "--max_infeed_threads takes a value"),
        ("--max_infeed_threads=two", "--max_infeed_threads=two is no whole number"),
        ("--on_demand_device_poll_time=99", "--on_demand_device_poll_time=99 is below 100"),
        ("--show_progress_bar=yes", "--show_progress_bar=yes is none of true, false, auto"),
    ],
)
def test_what_is_no_flag_or_no_value_is_an_error(text, said):
    with pytest.raises(ValueError, match=said):
        flags.parse(text)


def test_the_import_of_the_api_refuses_unknown_flags():
    done = programs.run("import tensorflow\nfrom tensorflow.python import ipu", TF_POPLAR_FLAGS="--nonsense")
    assert done.returncode == 1 and "ValueError: TF_POPLAR_FLAGS: unknown flag '--nonsense'" in done.stderr


@pytest.mark.shows("ipu.utils.running_on_ipu_model")
def test_the_software_model_is_chosen_by_a_flag(monkeypatch):
    assert not ipu.utils.running_on_ipu_model()
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_ipu_model")
    assert ipu.utils.running_on_ipu_model()


@pytest.mark.shows("ipu.utils.use_synthetic_data_for", "ipu.utils.SyntheticDataCategory")
def test_data_is_synthetic_by_category_or_all_of_it(monkeypatch):
    assert [category.name for category in Category] == ["Seed", "Infeed", "Outfeed", "HostEmbedding", "Parameters"]
    for text, wanted in (
        ("", []),
        ("--use_synthetic_data", list(Category)),
        ("--synthetic_data_categories=infeed,hostembedding", [Category.Infeed, Category.HostEmbedding]),
    ):
        monkeypatch.setenv("TF_POPLAR_FLAGS", text)
        assert [category for category in Category if ipu.utils.use_synthetic_data_for(category)] == wanted
    with pytest.raises(TypeError, match="must be a SyntheticDataCategory, and 'infeed' is none"):
        ipu.utils.use_synthetic_data_for("infeed")


def test_help_is_printed_and_the_level_of_the_log_is_a_number(monkeypatch, capsys):
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--help")
    flags.check()
    assert "--executable_cache_path: folder of compiled programs" in capsys.readouterr().err
    monkeypatch.setenv("TF_POPLAR_VLOG_LEVEL", "2")
    assert flags.log_level() == 2
    monkeypatch.setenv("TF_POPLAR_VLOG_LEVEL", "high")
    with pytest.raises(ValueError, match="TF_POPLAR_VLOG_LEVEL=high is no whole number"):
        flags.check()
