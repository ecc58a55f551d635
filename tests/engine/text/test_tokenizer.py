"""Words: marks, signs and scripts without spaces, against cuts written by hand and an oracle that reads characters."""

import numpy as np
import pytest
import torch

import engine
from engine.text.tokenizer import terms
from support.bm25_oracle import cut
from support.rankings import space_of

CUTS = {
    "The x_y of Straße: 3.14, naïve!": ["the", "x_y", "of", "strasse", "3", "14", "naïve"],
    "C++ and C#, C++11; F#. Notepad++ a+b page#part A+ Disney+ 18+": [
        "c++", "and", "c#", "c++", "11", "f#", "notepad++", "a", "b", "page", "part", "a+", "disney", "18",
    ],
    "用C++語言寫C#程式": ["用", "c++", "語言", "言寫", "c#", "程式"],
    "हिन्दी में लिखा": ["हिन्दी", "में", "लिखा"],
    "كِتَابٌ جديد العـــربية": ["كتاب", "جديد", "العربية"],
    "שָׁלוֹם": ["שלום"],
    "e\u0301te\u0301 \u0301 ﬁne ２０２６ ｶﾀｶﾅ": ["été", "fine", "2026", "カタ", "タカ", "カナ"],
    "自然語言 in 中": ["自然", "然語", "語言", "in", "中"],
    "東京タワーへ2024年": ["東京", "京タ", "タワ", "ワー", "ーへ", "2024", "年"],
    "กำลังดี": ["กํ" + "า", "าลั", "ลัง", "งดี"],
    "ລາວ": ["ລາ", "າວ"],
    "ខ្មែរ": ["ខ្មែ", "មែរ"],
    "မြန်မာ": ["မြန်", "န်မာ"],
    "한국어를 책": ["한국", "국어", "어를", "책"],
    "soft\u00adhyphen zero\u200bwidth می\u200cخواهم": ["softhyphen", "zero", "width", "میخواهم"],
}  # fmt: skip

#: Three sentences of a language; the queries of `QUERIES` ask for the second, the third and the first.
SENTENCES = {
    "zh": ["猫喜欢在屋顶上睡觉", "今天的股票市场大幅下跌", "医生建议多吃蔬菜水果"],
    "ja": ["猫は屋根の上で寝ている", "電車が遅れて会議に間に合わない", "新しいパソコンを買いました"],
    "th": ["แมวนอนอยู่บนหลังคา", "รถไฟมาสายทุกวันจันทร์", "หมอแนะนำให้กินผักและผลไม้"],
    "lo": ["ແມວນອນຢູ່ເທິງຫຼັງຄາ", "ລົດໄຟມາຊ້າທຸກວັນຈັນ", "ທ່ານໝໍແນະນຳໃຫ້ກິນຜັກ"],
    "km": ["ឆ្មាដេកនៅលើដំបូល", "រថភ្លើងមកយឺតរាល់ថ្ងៃ", "គ្រូពេទ្យណែនាំឱ្យញ៉ាំបន្លែ"],
    "my": ["ကြောင်က ခေါင်မိုးပေါ်မှာ အိပ်နေတယ်", "ရထား ဒီနေ့ နောက်ကျတယ်", "ဆရာဝန်က ဟင်းသီးဟင်းရွက် စားခိုင်းတယ်"],
    "hi": ["बिल्ली छत पर सो रही है", "रेलगाड़ी आज देर से आई", "डॉक्टर ने सब्ज़ी खाने को कहा"],
    "ar": ["القِطَّةُ نائمةٌ على السَّطح", "وصل القطار متأخرًا اليوم", "نصح الطبيب بأكل الخُضار"],
    "ko": ["고양이가 지붕에서 잠을 잔다", "기차가 오늘 늦게 도착했다", "의사가 채소를 먹으라고 했다"],
    "code": ["An introduction to C", "Templates in C++ and their cost", "Generics in C# and their cost"],
}
QUERIES = {
    "zh": ["股票下跌", "吃蔬菜", "屋顶上的猫"],
    "ja": ["会議の電車", "パソコンを買う", "屋根の猫"],
    "th": ["รถไฟมาสาย", "กินผัก", "แมวบนหลังคา"],
    "lo": ["ລົດໄຟຊ້າ", "ກິນຜັກ", "ແມວເທິງຫຼັງຄາ"],
    "km": ["រថភ្លើងយឺត", "ញ៉ាំបន្លែ", "ឆ្មាលើដំបូល"],
    "my": ["ရထားနောက်ကျ", "ဟင်းသီးဟင်းရွက်", "ကြောင်ခေါင်မိုး"],
    "hi": ["रेलगाड़ी देर", "सब्ज़ी खाना", "छत पर बिल्ली"],
    "ar": ["القطار متأخرا", "أكل الخضار الطبيب", "القطة على السطح"],
    "ko": ["기차 도착", "채소 먹기", "지붕의 고양이"],
    "code": ["C++", "C#", "C"],
}


@pytest.mark.parametrize("text", CUTS)
def test_words_are_those_cut_by_hand(text):
    assert terms(text) == CUTS[text]


def test_words_of_random_characters_are_those_of_an_oracle():
    rng = np.random.default_rng(0)
    ranges = [(0x20, 0x7F), (0xA0, 0x250), (0x370, 0x500), (0x5D0, 0x5EB), (0x620, 0x64B), (0x904, 0x950),
              (0xE01, 0xE4E), (0x1000, 0x103F), (0x1780, 0x17B4), (0x3041, 0x3097), (0x4E00, 0x4F00), (0xAC00, 0xAD00),
              (0x300, 0x30A), (0xFF21, 0xFF5B)]  # fmt: skip
    for _ in range(400):
        spans = [ranges[index] for index in rng.integers(0, len(ranges), 4)]
        text = "".join(chr(rng.integers(*spans[index])) for index in rng.integers(0, 4, 40))
        text = text.translate(dict.fromkeys(map(ord, "+#＋＃"), " "))
        assert terms(text) == cut(text), [hex(ord(c)) for c in text]
        assert terms(text, "2") == cut(text, "2")


def test_signs_make_words_in_other_scripts_too():
    assert terms("नि C# é++ Ж#") == ["नि", "c#", "é++", "ж#"]


@pytest.mark.parametrize("query, best", [("睡", 0), ("股", 1), ("菜", 2), ("猫 吃", 2)])
def test_one_character_finds_the_pairs_that_it_is_in(query, best):
    space = space_of(torch.eye(3), [*SENTENCES["zh"][:2], "医生建议猫多吃蔬菜"])
    asked = engine.Embeddings(("q",), torch.ones(1, 3), texts=(query,))
    answer = engine.decode(engine.Decoder(engine.make("top_k"), engine.make("bm25")), space, asked, k=1)
    assert answer.rows() == [best]


@pytest.mark.parametrize("language", SENTENCES)
def test_bm25_finds_the_right_sentence_in_every_script(language):
    sentences, queries = SENTENCES[language], QUERIES[language]
    space = space_of(torch.eye(len(sentences)), sentences)
    points = torch.ones(len(queries), len(sentences))
    asked = engine.Embeddings(tuple(map(str, range(len(queries)))), points, texts=tuple(queries))
    decoder = engine.Decoder(engine.make("top_k"), engine.make("bm25"))
    answer = engine.decode(decoder, space, asked, k=1)
    assert answer.index[:, 0].tolist() == [1, 2, 0]
    assert bool((answer.gain[:, 0] > 0).all())
