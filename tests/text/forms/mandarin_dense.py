"""Mandarin forms of chats, shops, logs, books, matches and wards: dense, and full of context."""

from __future__ import annotations

import random
from collections.abc import Iterator

from .form import Form
from .saying import han, han_call, han_digits


def _chats(rng: random.Random) -> Iterator[Form]:
    n = rng.randint(2, 9)
    yield Form("网语", f"笑死2{'3' * n}", f"笑死二{'三' * n}")
    yield Form("网语", "先溜了886", "先溜了八八六")
    yield Form("网语", "祝你们1314", f"祝你们{han_call('1314')}")
    yield Form("网语", "在7-11买的", "在七(幺幺|十一)买的")
    yield Form("网语", "12306抢票", f"{han_call('12306')}抢票")
    yield Form("网语", f"{n}k5以内", f"({han(n)}|两)千五(百)?以内")
    yield Form("网语", f"{n}00+人", f"({han(n)}|两)百多人")
    yield Form("网语", f"{n}0+km", f"{han(n * 10)}(多公里|公里以上)")


def _keys(rng: random.Random) -> Iterator[Form]:
    a, b, c = (str(rng.randint(101, 989)) for _ in range(3))
    groups = f"{han_call(a)}{han_call(b)}{han_call(c)}"
    yield Form("号码", f"会议号{a}-{b}-{c}", f"会议号{groups}", True)
    yield Form("号码", f"会议号：{a} {b} {c}", f"会议号{groups}", True)
    yield Form("号码", f"订单#20231108-{a}", f"订单{han_call('20231108')}{han_call(a)}", True)
    yield Form("号码", f"按{a}#确认", f"按{han_call(a)}(井号?键?|号)确认|按{han(int(a))}号确认")
    yield Form("号码", f"拨*{a}#", f"拨星号?{han_call(a)}井号?键?")
    yield Form("号码", f"第2023{a}期", f"第{han_digits('2023' + a)}期")
    yield Form("号码", f"京ICP备2023{a}号-1", f"京ICP备{han_call('2023' + a)}号(杠|之)?(一|幺)")
    yield Form("号码", f"国办发[2023]{a}号", f"国办发二零二三{han(int(a))}号", True)
    yield Form("号码", f"{b[0]}/{c[0]}号线", f"{han(int(b[0]))}{han(int(c[0]))}号线", True)
    yield Form("号码", "92#汽油", "九(十)?二号汽油")
    yield Form("号码", "返回404", "返回四零四")
    yield Form(
        "号码",
        f"6ES7-{a}-1AG{b[:2]}",
        f"六ES七(杠)?{han_call(a)}(杠)?{han_call('1')}AG{han_call(b[:2])}",
        True,
    )
    yield Form("号码", f"编码AB-12-{a}", f"编码AB(杠)?{han_call('12')}(杠)?{han_call(a)}", True)
    yield Form("号码", f"C幢12-{a[0]}", f"c幢十二(杠|之)?{han(int(a[0]))}")


def _days(rng: random.Random) -> Iterator[Form]:
    m, d = rng.randint(1, 12), rng.randint(13, 27)
    day, later = f"{han(m)}月{han(d)}(日|号)", f"{han(m)}月{han(d + 2)}(日|号)"
    yield Form("日子", f"{m}/{d}前提交", f"{day}前提交")
    yield Form("日子", f"请于{m}/{d}交表", f"请于{day}交表")
    yield Form("日子", f"{m}/{d}截止", f"{day}截止")
    yield Form("日子", f"{m}.{d}大促", f"{day}大促")
    yield Form("日子", f"活动时间{m}.{d}-{m}.{d + 2}", f"活动时间{day}[到至]{later}")
    yield Form("日子", "（前259年—前210年）", "前二五九年[到至](公元)?前二一零年", True)
    yield Form("日子", f"{m}-{d} 15:32签收", f"{day}十五点三十二分签收")
    yield Form("日子", f"{m}月底-{m}月中旬", f"{han(m)}月底[到至]{han(m)}月中旬")
    yield Form("日子", "汉朝（前202—220）", "汉朝前二零二[到至]二二零", True)
    yield Form("日子", f"他是8{d % 9 + 1}年的", f"他是八{han(d % 9 + 1)}年的")
    yield Form("日子", f"提前{d}-{d + 2}年", f"提前{han(d)}[到至]{han(d + 2)}年")
    yield Form("日子", f"22:00-次日{m}:00", f"二十二点[到至]次日{'两' if m == 2 else han(m)}点")
    yield Form("日子", f"每次q{m}h服", f"每次每{'两' if m == 2 else han(m)}(个)?小时服")
    yield Form("日子", f"配速{m}'{d}\"", f"配速{han(m)}分{han(d)}秒")
    yield Form("日子", f"半马1:{d + 30}", f"半马一小时{han(d + 30)}分")


def _books(rng: random.Random) -> Iterator[Form]:
    a, b = rng.randint(13, 99), rng.randint(3, 9)
    yield Form(
        "书刊",
        f"2019, {a}({b}): {a + 9}-{a + 20}",
        f"二零一九年第?{han(a)}卷第?{han(b)}期第?{han(a + 9)}[到至]{han(a + 20)}页",
        True,
    )
    yield Form("书刊", f"P.{a}~P.{a + 9}", f"第{han(a)}(页)?[到至](第)?{han(a + 9)}页")
    yield Form("书刊", f"读到P{a + 100}", f"读到第{han(a + 100)}页")
    yield Form("书刊", f"{b}-2节", f"{han(b)}(杠|之)(二|两)节")
    yield Form("书刊", f"第({b})项", f"第{han(b)}项")
    yield Form("书刊", "第（三）款", "第三款")
    yield Form("书刊", f"第{b}/{a}页", f"第{han(b)}页，?共{han(a)}页", True)
    yield Form("书刊", f"重试{b}/{a}", f"重试{han(b)}，?共{han(a)}", True)


def _records(rng: random.Random) -> Iterator[Form]:
    a, b = rng.randint(10, 28), rng.randint(3, 9)
    yield Form("记录", f"KDA {a}/{b}/{a + 1}", f"KDA{han(a)}杠?{han(b)}杠?{han(a + 1)}", True)
    yield Form("记录", f"梅西{a + 50}'破门", f"梅西第?{han(a + 50)}分钟?破门")
    yield Form("记录", f"女双决赛{a}:19,19:{a}", f"女双决赛{han(a)}比十九十九比{han(a)}", True)
    yield Form("记录", f"满血{b}00/{b}00", f"满血{han(b * 100)}(分之|，|斜杠){han(b * 100)}", True)
    yield Form("记录", f"({a}-7,{b}-11)", f"{han(a)}比七{han(b)}比十一", True)
    yield Form(
        "记录",
        f"孕{a}w+{b % 6 + 1}d",
        f"孕{han(a)}周加?{han(b % 6 + 1).replace('二', '(二|两)')}天",
    )
    yield Form("记录", f"C{a}-C{a + 9}", f"C{han(a)}[到至]C{han(a + 9)}")
    yield Form("记录", f"用药×{b}d", f"用药乘{han(b)}天")
    yield Form("记录", "单位kg/m³", "单位千克每立方米|单位每立方米千克")
    yield Form("记录", "抗体(+)", "抗体(阳性|加)", True)
    yield Form("记录", "抗原(-)", "抗原(阴性|减)", True)
    yield Form("记录", f"({a}±{b})℃", f"{han(a)}正负{han(b)}(摄氏)?度", True)
    yield Form("记录", f"LPR-{a}BP", f"LPR减{han(a)}(个)?基点")
    yield Form("记录", f"{b}.5w/㎡", f"{han(b)}点五万(元)?每平(方)?米")
    yield Form("记录", f"RMB {a}万元", f"(人民币)?{han(a)}万元")
    yield Form("记录", f"6000元/{a}期", f"六千元分{han(a)}期")
    yield Form("记录", "com.foo.Bar", "com点?foo点?Bar")
    yield Form("记录", "用.NET写", "用(点)?NET写")


MAKERS = (_chats, _keys, _days, _books, _records)
