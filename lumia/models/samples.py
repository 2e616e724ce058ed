"""Forty pairs of texts that have nothing to do with each other: what "unrelated" looks like to an embedding model.

Most pairs are of one language, for texts of one language lie nearer to each other and chats rarely mix them.
"""

from __future__ import annotations

UNRELATED: tuple[tuple[str, str], ...] = (
    ("The bus to the airport leaves every twenty minutes.", "My grandmother knits socks for the whole family."),
    ("Please send me the invoice by Thursday.", "The northern lights were green last night."),
    ("He plays bass in a jazz trio.", "The basil on the balcony has dried up."),
    ("Our router needs a firmware update.", "She is allergic to peanuts."),
    ("I lost my umbrella on the train.", "Quadratic equations have two solutions."),
    ("The museum is closed on Mondays.", "Add two spoons of sugar and stir."),
    ("What time does the pharmacy open?", "That film was far too long."),
    ("The dentist said I need a crown.", "Their new album sounds like the old one."),
    ("We should repaint the fence in spring.", "The exam covers chapters three to seven."),
    ("My phone battery dies at thirty percent.", "Lions sleep most of the day."),
    ("She moved to the accounting department.", "The soup tastes better with lime."),
    ("There is a crack in the windscreen.", "He has been learning Welsh for a year."),
    ("The flight was delayed because of fog.", "Which wallpaper do you like better?"),
    ("Our landlord raised the rent again.", "The chess club meets in the library."),
    ("明天早上我要去医院体检。", "这部电影的配乐很好听。"),
    ("他家的狗特别怕打雷。", "请把报表在周五之前发给我。"),
    ("地铁二号线今天晚点了。", "妈妈做的红烧肉最好吃。"),
    ("我打算报名学游泳。", "显卡的价格又涨了。"),
    ("这本小说我看了三遍。", "洗衣机一直漏水。"),
    ("她在杭州开了一家咖啡馆。", "数学考试比我想的难。"),
    ("昨晚的球赛踢到了加时。", "牙膏快用完了。"),
    ("公司下个月搬到新的办公楼。", "猫把花瓶打碎了。"),
    ("你知道怎么换轮胎吗?", "爷爷每天早上打太极。"),
    ("外卖送错地址了。", "望远镜里能看到土星的光环。"),
    ("電車が遅れて会議に間に合わなかった。", "祖母は庭でトマトを育てている。"),
    ("新しい靴がきつくて痛い。", "この曲は三拍子で書かれている。"),
    ("冷蔵庫に牛乳がもうない。", "来週、図書館でチェスの大会がある。"),
    ("彼は毎朝五キロ走る。", "プリンターのインクが切れた。"),
    ("Der Drucker hat schon wieder Papierstau.", "Im Sommer wandern wir durch die Alpen."),
    ("Meine Tante züchtet Bienen.", "Die Sitzung ist auf Dienstag verschoben."),
    ("Der Kuchen ist innen noch flüssig.", "Er hat seine Fahrprüfung bestanden."),
    ("El grifo de la cocina gotea.", "Mi prima estudia derecho en Salamanca."),
    ("El partido terminó en empate.", "¿Dónde se renueva el pasaporte?"),
    ("Hoy no hay pan en la tienda.", "La guitarra tiene una cuerda rota."),
    ("Le chauffage est tombé en panne.", "Ma sœur joue du violon depuis dix ans."),
    ("Il faut arroser les tomates.", "Le train de nuit part à vingt-deux heures."),
    ("Ce roman se passe au Moyen Âge.", "Mon ordinateur redémarre tout seul."),
    ("The kids are building a treehouse.", "服务器昨天夜里重启了。"),
    ("我妹妹养了两只鹦鹉。", "The tax return is due in April."),
    ("Der Bäcker hat sonntags zu.", "新幹線の切符を予約した。"),
)
