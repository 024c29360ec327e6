"""A Dask cluster gives the report of one process, whatever becomes of its workers."""

from __future__ import annotations

import builtins
import json
import logging
import os
import signal
import threading
from contextlib import contextmanager

import dask
import pytest
from distributed import LocalCluster

from pp1wire import cli
from pp1wire.capture import cluster
from pp1wire.capture.cluster import ClusterError, validate_on_cluster
from pp1wire.capture.findings import ExitStatus
from pp1wire.capture.validate import validate
from tests.capture.golden import capture, golden


@contextmanager
def running(workers=1, **options):
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0, "distributed.comm.timeouts.connect": "5s"}),
        LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0", host="127.0.0.1", protocol="tcp",
            silence_logs=logging.CRITICAL, **options,
        ) as local,
    ):  # fmt: skip
        yield local


@pytest.fixture(scope="module")
def address():
    with running(2, processes=False) as local:
        yield local.scheduler_address


@pytest.fixture
def files(tmp_path):
    good, bad = capture(golden().sent), capture(golden(fault=True).sent)
    contents = {"good": good, "bad": bad, "cut": good[:-7], "none": b"what?", "bad2": bad}
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
    return [str(tmp_path / name) for name in [*contents, "missing"]] * 2


def text(result):
    return json.dumps(result.to_json())


@pytest.mark.parametrize("most", [1, 1000])
def test_a_cluster_gives_the_report_of_one(address, files, most) -> None:
    told = []
    result = validate(files, dask=address, max_findings=most, progress=lambda *a: told.append(a))
    assert result.status is ExitStatus.INVALID
    assert text(result) == text(validate(files, max_findings=most))
    assert sorted(name for name, _ in told) == sorted(files)


def test_no_file_waits_behind_another_on_a_worker(address, files, monkeypatch) -> None:
    most = []
    original = cluster._Run._submit

    def submit(run, place):
        original(run, place)
        most.append(len(run._places))

    monkeypatch.setattr(cluster._Run, "_submit", submit)
    validate(files, dask=address)
    assert max(most) == 2


def test_the_command_line(address, files, capsys) -> None:
    assert cli.main(["validate", "--json", *files]) == 1
    expected = capsys.readouterr().out
    assert cli.main(["validate", "--json", "--dask", address, *files]) == 1
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize("more", [["--jobs", "2"], ["--html", "page"], ["-"]])
def test_what_a_cluster_cannot_do_is_wrong_usage(more, files, capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["validate", "--dask", "tcp://127.0.0.1:1", files[0], *more])
    assert ended.value.code == 64
    assert "--dask: not allowed with" in capsys.readouterr().err
    with pytest.raises(ValueError, match="dask: expected no jobs"):
        validate(files, dask="tcp://127.0.0.1:1", jobs=2)


def test_a_dead_worker_costs_the_file_in_hand(tmp_path, files) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with running(processes=True) as local:

        def kill() -> None:
            with pipe.open("wb"):  # opens once the worker reads it
                (nanny,) = local.workers.values()
                os.kill(nanny.pid, signal.SIGKILL)

        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        result = validate_on_cluster([str(pipe), files[0]], local.scheduler_address)
        killer.join(10)
    assert [finding.message for finding in result.findings] == [
        "every worker that judged it has died; their logs say more"
    ]
    assert [file.status for file in result.files] == [ExitStatus.UNREADABLE, ExitStatus.VALID]


def test_without_workers_it_does_not_wait_for_ever(files, monkeypatch) -> None:
    monkeypatch.setattr(cluster, "_LOOK_S", 0.05)
    with running(0, processes=False) as local:
        result = validate_on_cluster(files[:3], local.scheduler_address, patience_s=0.1)
    assert [finding.message for finding in result.findings] == ["the cluster has no workers"] * 3
    assert [file.name for file in result.files] == files[:3]


def test_a_scheduler_that_goes_is_told(files, monkeypatch) -> None:
    monkeypatch.setattr(cluster, "_CONNECT_S", 1)
    monkeypatch.setattr(cluster, "_LOOK_S", 0.05)
    with running(0, processes=False) as local:
        closer = threading.Timer(0.3, local.close)
        closer.start()
        result = validate_on_cluster(files[:3], local.scheduler_address)
        closer.join(10)
    assert {file.status for file in result.files} == {ExitStatus.UNREADABLE}
    assert {finding.message for finding in result.findings} <= {
        "the scheduler has gone",
        "the scheduler has gone, or gave it up",
    }


def test_what_cannot_be_used_is_told(files, address, monkeypatch, capsys) -> None:
    monkeypatch.setattr(cluster, "_CONNECT_S", 0.2)
    with pytest.raises(ClusterError, match=r"nothing answers at tcp://127\.0\.0\.1:1"):
        validate(files, dask="tcp://127.0.0.1:1")
    with pytest.raises(ClusterError, match="nothing answers at"):
        validate(files, dask="what")
    with pytest.raises(SystemExit) as ended:
        cli.main(["validate", "--dask", "tcp://127.0.0.1:1", *files])
    assert ended.value.code == 64
    assert "argument --dask: dask: nothing answers" in capsys.readouterr().err
    task = cluster._Task("a", "a", (), None, 1, version="0.0.0")
    with pytest.raises(ClusterError, match=r"this is pp1wire 0\.0\.0, but a worker has"):
        cluster._judge(task)


def test_a_worker_of_another_version_is_refused(files, address, monkeypatch) -> None:
    original = cluster._Task
    monkeypatch.setattr(cluster, "_Task", lambda *a: original(*a, version="0.0.0"))
    monkeypatch.setattr(cluster, "_judge", lambda task: original_judge(task))
    with pytest.raises(ClusterError, match=r"this is pp1wire 0\.0\.0, but a worker has"):
        validate(files, dask=address)


original_judge = cluster._judge


def test_without_distributed_the_extra_is_named(files, monkeypatch) -> None:
    original = builtins.__import__

    def without(name, *arguments, **named):
        if name == "distributed":
            raise ImportError(name)
        return original(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ClusterError, match=r"install pp1wire\[dask\]"):
        validate(files, dask="tcp://127.0.0.1:1")


def test_workers_log_no_secret() -> None:
    task = cluster._Task("https://u:hunter2@host/x?sig=hunter2", "https://host/x?…", (), None, 1)
    assert "hunter2" not in repr(task)
