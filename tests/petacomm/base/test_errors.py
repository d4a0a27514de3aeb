"""Errors: messages, exit codes, and pickling between ranks."""

import copy
import pickle

import pytest

from petacomm.base import errors
from petacomm.base.errors import UserError, did_you_mean

KINDS = [
    (UserError, 1),
    (errors.ConfigError, 2),
    (errors.DataError, 3),
    (errors.ConvergenceError, 4),
    (errors.ResourceError, 5),
]


@pytest.mark.parametrize(("kind", "code"), KINDS)
def test_errors_survive_pickling(kind, code):
    for where, mend in ((None, None), ("a.toml:3", None), (None, "do this"), ("a.toml:3", "do this")):
        error = kind("is wrong", where=where, mend=mend)
        for other in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):
            assert type(other) is kind and other.exit_code == code
            assert (other.what, other.where, other.mend, str(other)) == ("is wrong", where, mend, str(error))


def test_messages():
    assert str(UserError("is wrong")) == "is wrong"
    assert str(UserError("is wrong", where="a:3")) == "a:3: is wrong"
    assert str(UserError("is wrong", where="a:3", mend="do this")) == "a:3: is wrong (do this)"


def test_did_you_mean():
    assert did_you_mean("n_sid", ["n_side", "stokes"]) == "did you mean 'n_side'?"
    assert did_you_mean("zzz", ["b", "a"]) == "known: a, b"
    assert did_you_mean("zzz", []) is None


def test_a_place_is_told_on_one_line():
    error = UserError("is no map", where="a\nb\x1b[31m.fits")
    assert str(error) == "a\\nb\\x1b[31m.fits: is no map"
