import sqlite3

import pytest

from phasewise.profile.nsight_systems import condense, find_importer, read_tables, watch_system


@pytest.fixture
def tables(tmp_path):
    path = tmp_path / "report.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript(
        """
        CREATE TABLE StringIds (id INTEGER, value TEXT);
        INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel_v7000'), (2, 'cudaDeviceSynchronize_v3020'), (3, 'gemm'), (4, 'secret-host'),
                                     (5, 'step'), (6, 'cudaLaunchKernel_v11060');
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, shortName INTEGER);
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (2000, 5000, 3), (4000, 6000, 3), (8000, 9000, 3);
        CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, bytes INTEGER);
        INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (9000, 9500, 64);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, nameId INTEGER);
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1000, 1500, 1), (1600, 1700, 6), (3000, 9600, 2);
        CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, textId INTEGER);
        INSERT INTO NVTX_EVENTS VALUES (1000, 4000, 59, 'step', NULL), (4000, 11000, 59, NULL, 5), (0, 99999, 75, 'other', NULL);
        CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, value TEXT);
        INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES ('Hostname', 'secret-host');
        """
    )
    connection.commit()
    connection.close()
    return path


def test_overlapping_kernels_count_once_and_versions_are_no_part_of_a_calls_name(tables):
    found = read_tables(tables, 5)
    assert found.kernel_s == pytest.approx(5e-6)
    assert found.memcpy_s == pytest.approx(0.5e-6)
    assert (found.kernels, found.steps) == (3, 2)
    assert found.gpu_busy_share == pytest.approx(5.5 / 10)
    assert found.top_api[0] == ("cudaDeviceSynchronize", pytest.approx(6.6e-6))
    assert found.top_api[1] == ("cudaLaunchKernel", pytest.approx(0.6e-6))


def test_absent_tables_are_zeros(tmp_path):
    path = tmp_path / "empty.sqlite"
    sqlite3.connect(path).close()
    found = read_tables(path, 4)
    assert (found.kernel_s, found.kernels, found.steps, found.gpu_busy_share, found.top_api) == (0, 0, 4, None, ())


def test_what_is_kept_reads_the_same_and_names_no_host(tables, tmp_path):
    condense(tables, tmp_path / "kept.sqlite")
    assert read_tables(tmp_path / "kept.sqlite", 5) == read_tables(tables, 5)
    assert b"secret-host" not in (tmp_path / "kept.sqlite").read_bytes()


def test_the_importer_is_found_beside_the_tool(tmp_path):
    (tmp_path / "target-linux-x64").mkdir()
    (tmp_path / "linux-desktop-glibc_2_11_3-x64").mkdir()
    nsys = tmp_path / "target-linux-x64" / "nsys"
    nsys.touch()
    assert find_importer(nsys) is None
    importer = tmp_path / "linux-desktop-glibc_2_11_3-x64" / "QdstrmImporter"
    importer.touch()
    assert find_importer(nsys) == importer


def fake_nsys(folder, importer_output):
    """An nsys that collects and cannot convert, and an importer that fails in the same way as one without libdw."""
    (folder / "target").mkdir()
    (folder / "host").mkdir()
    nsys, importer = folder / "target" / "nsys", folder / "host" / "QdstrmImporter"
    nsys.write_text('#!/bin/sh\nwhile [ "$1" != "-o" ]; do shift; done\ntouch "$2.qdstrm"\n')
    importer.write_text(f"#!/bin/sh\necho '{importer_output}' >&2\nexit 127\n")
    nsys.chmod(0o755)
    importer.chmod(0o755)
    return nsys


def test_an_importer_without_libdw_is_a_reason_with_the_cure(tmp_path, monkeypatch):
    nsys = fake_nsys(tmp_path, "error while loading shared libraries: libdw.so.1: cannot open shared object file")
    monkeypatch.setattr("phasewise.profile.nsight_systems.find_tool", lambda name: nsys)
    capture, timeline = watch_system(tmp_path / "plan", "one", tmp_path, 5, tmp_path / "out.gz", {}, "cpu")
    assert timeline is None
    assert "libdw" in capture.skipped
    assert "PHASEWISE_NSYS_LIBRARIES" in capture.cure


def test_a_tool_that_does_not_run_is_a_reason_and_no_exception(tmp_path, monkeypatch):
    monkeypatch.setattr("phasewise.profile.nsight_systems.find_tool", lambda name: tmp_path / "nowhere")
    capture, timeline = watch_system(tmp_path / "plan", "one", tmp_path, 5, tmp_path / "out.gz", {}, "cpu")
    assert timeline is None
    assert "cannot be started" in capture.skipped
