"""Large texts in journal and ledger."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lumia.compressed import PLAIN, fitted, pack, unpack


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_a_packed_text_comes_back(text: str) -> None:
    assert unpack(pack(text)) == text


def test_small_texts_stay_readable_and_large_ones_get_small() -> None:
    small, large = '{"j":1}', '{"j":"' + "ab" * PLAIN + '"}'
    assert fitted(small) == small and unpack(small) == small
    assert len(fitted(large)) < len(large) / 50 and unpack(fitted(large)) == large
