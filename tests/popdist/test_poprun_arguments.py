"""The command line of poprun: what is taken, and what is refused with a cure."""

import pytest

from popdist._impl import arguments, poprun


def parsed(*words):
    return arguments.parse([*words, "python", "train.py", "--epochs", "3"])


def test_everything_behind_the_program_is_its_own():
    given, notes = parsed("-n", "2")
    assert (given.program, given.arguments, notes) == ("python", ["train.py", "--epochs", "3"], [])


def test_replicas_default_to_one_for_each_instance():
    given, _ = parsed("--num-instances", "3")
    assert (given.num_instances, given.num_replicas, given.ipus_per_replica) == (3, 3, 1)
    assert parsed()[0].num_instances == 1


@pytest.mark.parametrize(
    "words, said",
    [
        (["-n", "0"], "argument -n/--num-instances: '0' is not a positive integer"),
        (["-n", "two"], "argument -n/--num-instances: 'two' is not a positive integer"),
        (
            ["-n", "2", "--num-replicas", "3"],
            "--num-replicas 3 cannot be divided among --num-instances 2: use a multiple of 2",
        ),
        (
            ["-n", "2", "--only-output-from-instance", "2"],
            "--only-output-from-instance 2: the instances are 0 to 1",
        ),
        (["--print-topology", "maybe"], "argument --print-topology: 'maybe' is neither yes nor no"),
        (["--host", "a[1-x]"], "argument -H/--host: 'a[1-x]' is no list of hosts such as host[0-2,4]"),
        (
            ["--host", "far,away"],
            "--host names far, away, and poprun starts processes on its own host only: start the same command on each of "
            "the 2 hosts, with --host-index 0 to 1",
        ),
        (["--host", "far,away", "--host-index", "2"], "--host-index 2: --host names hosts 0 to 1"),
        (
            ["--host", "far,away", "--host-index", "0", "-n", "3"],
            "--num-instances 3 cannot be divided among 2 hosts: use a multiple of 2",
        ),
    ],
)
def test_bad_arguments_are_refused_with_a_cure(words, said, capsys):
    with pytest.raises(SystemExit) as ended:
        parsed(*words)
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"poprun: error: {said}"


def test_the_program_is_missing(capsys):
    with pytest.raises(SystemExit):
        arguments.parse(["-n", "2"])
    assert "the following arguments are required: program" in capsys.readouterr().err
    assert poprun.main(["-n", "2", "no-such-program"]) == 127
    assert capsys.readouterr().err == (
        "poprun: there is no program 'no-such-program'. Example: poprun -n 2 python train.py\n"
    )


def test_lists_of_hosts():
    def hosts(text):
        return arguments.parse(["--host", text, "--host-index", "0", "python"])[0].host

    assert hosts("pod[08-10]") == ["pod08", "pod09", "pod10"]
    assert hosts("host[0-2,4],other") == ["host0", "host1", "host2", "host4", "other"]
    assert hosts("one") == ["one"]


def test_options_for_partitions_and_mpi_are_said_to_have_no_effect():
    _, notes = parsed("--vipu-partition", "p1", "--update-partition", "yes", "--mpi-global-args=--tag-output")
    reserved = "each instance has an emulated system of its own, so nothing is reserved"
    assert notes == [
        f"--vipu-partition has no effect: {reserved}",
        f"--update-partition has no effect: {reserved}",
        "--mpi-global-args has no effect: instances are started by torch.distributed.run, not by mpirun",
    ]


def test_the_topology_says_who_runs_which_replicas():
    given, _ = parsed("-n", "2", "--num-replicas", "8", "--ipus-per-replica", "2")
    assert poprun._topology(given).splitlines() == [
        "instance  host                  replicas     IPUs of its system",
        "0         localhost             0-3          8",
        "1         localhost             4-7          8",
    ]
