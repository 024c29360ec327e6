"""The page as people meet it: in headless Chromium, light and dark, wide and narrow, by keyboard alone, without scripts."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.capture.html.browser import Browser
from tests.capture.html.pages import captures, page_of

pytestmark = pytest.mark.system

OPEN_ALL = "document.querySelectorAll('details').forEach((d) => { d.open = true; })"

# Every piece of text that can be seen, with the contrast of its colour to what lies behind it (WCAG 2.2, 1.4.3).
CONTRASTS = """(() => {
  const parse = (text) => { const p = text.match(/[\\d.]+/g).map(Number); return p.length < 4 ? [...p, 1] : p; };
  const linear = (v) => v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const behind = (element) => { for (let e = element; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor); if (c[3] === 1) return c.slice(0, 3); } return null; };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || element.closest('script, title, .heard')) continue;
    if (!element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const ground = behind(element);
    const ink = parse(element instanceof SVGElement ? style.fill : style.color).slice(0, 3);
    found.push([walker.currentNode.textContent.trim().slice(0, 40), ground === null ? 0 : ratio(ink, ground)]);
  }
  for (const shape of document.querySelectorAll('.timeline .bar rect, .curve, .filled, mark')) {
    const style = getComputedStyle(shape);
    const ink = parse(shape.matches('.filled') ? style.fill : shape.matches('mark') ? style.outlineColor : style.stroke);
    // What is no text needs 3 (1.4.11).
    found.push([shape.outerHTML.slice(0, 60), 1.5 * ratio(ink.slice(0, 3), behind(shape.closest('div, pre, figure')))]);
  }
  return found;
})()"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    path = folder / "report.html"
    path.write_bytes(page_of(captures(folder)))
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


def complaints(browser):
    """What the page or the browser has to say: errors, warnings, dialogs, and requests for anything but the page."""
    browser.run("new Promise((done) => setTimeout(done, 50))")
    return (
        [entry["entry"]["text"] for entry in browser.told("Log.entryAdded")]
        + [str(thrown["exceptionDetails"]) for thrown in browser.told("Runtime.exceptionThrown")]
        + [str(call["args"]) for call in browser.told("Runtime.consoleAPICalled")]
        + [dialog["message"] for dialog in browser.told("Page.javascriptDialogOpening")]
        + [request["request"]["url"] for request in browser.told("Network.requestWillBeSent")][1:]
    )


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_nothing_is_fetched_nothing_complains_and_every_text_can_be_read(browser, page, dark):
    browser.open(page, dark=dark)
    browser.run(OPEN_ALL)
    contrasts = browser.run(CONTRASTS)
    assert len(contrasts) > 500
    assert [one for one in contrasts if one[1] < 4.5] == []
    assert len(browser.told("Network.requestWillBeSent")) == 1
    assert complaints(browser) == []


def test_light_and_dark_are_two_pictures(browser, page):
    pictures = []
    for dark in (False, True):
        browser.open(page, dark=dark)
        pictures.append(browser.screenshot())
        red, green, blue = browser.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
        assert (max(red, green, blue) < 64) if dark else (min(red, green, blue) > 192)
    assert len(set(pictures)) == 2
    assert all(len(picture) > 20_000 for picture in pictures)


@pytest.mark.parametrize("width", [360, 768, 1600])
def test_the_page_fits_its_window(browser, page, width):
    browser.open(page, width=width)
    browser.run(OPEN_ALL)
    assert browser.run("[document.documentElement.scrollWidth, innerWidth]") == [width, width]
    # What is wider scrolls by itself; nothing hangs out of its section.
    hanging = """[...document.querySelectorAll('section *')].filter((e) => e.checkVisibility()
        && !e.parentElement.closest('svg, .scroll') && e.getBoundingClientRect().right > innerWidth)
        .map((e) => e.outerHTML.slice(0, 80))"""
    assert browser.run(hanging) == []


def focused(browser, what):
    return browser.run(f"document.activeElement.{what}")


def tab_to(browser, selector):
    for _ in range(60):
        browser.press("Tab")
        if browser.run(f"document.activeElement.matches({selector!r})"):
            # Whoever moves by keys sees where they are.
            assert browser.run("parseFloat(getComputedStyle(document.activeElement).outlineWidth) >= 2")
            return
    raise AssertionError(f"{selector} is not reached")


def below(nodes, root):
    by_id = {node["nodeId"]: node for node in nodes}
    found, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting += [by_id[child] for child in node.get("childIds", []) if child in by_id]
    return found


def test_a_finding_is_opened_by_keys_and_its_wrong_field_is_told(browser, page):
    browser.open(page)
    nodes = browser.tree()
    assert not [node for node in nodes if node["role"]["value"] == "mark"]
    tab_to(browser, "details.finding > summary")
    assert focused(browser, "parentElement.open") is False
    browser.press("Enter")
    assert focused(browser, "parentElement.open") is True
    seen = browser.run("""(() => { const mark = document.activeElement.parentElement.querySelector('pre mark');
        const box = mark.getBoundingClientRect(); return mark.checkVisibility() && box.width > 40 && box.height > 5; })()""")
    assert seen
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    marks = [node for node in nodes if node["role"]["value"] == "mark"]
    assert len(marks) == 1
    said = " ".join(node.get("name", {}).get("value", "") for node in below(nodes, marks[0]))
    path = focused(browser, "parentElement.querySelector('.inside code').textContent")
    assert path == "header.body_checksum"
    assert f"wrong: {path}" in said
    assert browser.run("document.activeElement.parentElement.querySelector('pre mark').lastChild.textContent") in said
    browser.press("Enter")
    assert focused(browser, "parentElement.open") is False


def test_keys_move_search_and_explain(browser, page):
    browser.open(page)
    ids = "document.activeElement.parentElement.id"
    browser.press("j")
    assert browser.run(ids) == "finding-1"
    browser.press("j")
    browser.press("j")
    assert browser.run(ids) == "finding-3"
    browser.press("k")
    assert browser.run(ids) == "finding-2"
    browser.press("/")
    assert focused(browser, "id") == "search"
    browser.type("q[3]")
    shown = "[...document.querySelectorAll('ol.findings > li')].filter((i) => i.checkVisibility()).map((i) => i.textContent)"
    found = browser.run(shown)
    assert found
    assert all("q[3]" in text.lower() for text in found)
    total = browser.run("document.querySelectorAll('ol.findings > li').length")
    assert total > len(found)
    assert browser.run("document.getElementById('shown').textContent") == f"{len(found)} of {total} shown"
    browser.press("Escape")
    assert len(browser.run(shown)) == total
    assert focused(browser, "tagName") == "SUMMARY"
    browser.press("?")
    assert browser.run("document.getElementById('help').open") is True
    browser.press("Escape")
    assert browser.run("document.getElementById('help').open") is False
    browser.run("document.querySelector('[data-severity=note]:not(li)').click()")
    assert len(browser.run(shown)) < total
    # Keys of one letter can be turned off (WCAG 2.2, 2.1.4).
    browser.run("document.getElementById('keys').checked = false, document.activeElement.blur()")
    browser.press("j")
    assert focused(browser, "tagName") == "BODY"
    assert complaints(browser) == []


def test_bars_of_the_timeline_are_moved_between_by_arrows_and_lead_to_their_line(browser, page):
    browser.open(page)
    tab_to(browser, ".timeline a.bar")
    first = focused(browser, "getAttribute('aria-label')")
    assert "packets: STEP " in first
    browser.press("ArrowRight")
    second = focused(browser, "getAttribute('aria-label')")
    assert second != first
    assert browser.run("document.getElementById('told').textContent") == second
    browser.press("ArrowLeft")
    assert focused(browser, "getAttribute('aria-label')") == first
    browser.press("Enter")
    row = browser.run(
        "(() => { const row = document.querySelector(location.hash); return [row.tagName, row.checkVisibility()]; })()"
    )
    assert row == ["TR", True]


@pytest.mark.parametrize("zoom", [4, 16, 64])
def test_the_timeline_grows_inside_its_frame_without_scripts(browser, page, zoom):
    browser.open(page, scripts=False)
    browser.run(f"document.getElementById('zoom{zoom}').checked = true")
    frame = "document.querySelector('.timeline .scroll')"
    assert browser.run(f"{frame}.scrollWidth / {frame}.clientWidth") == pytest.approx(zoom, rel=0.01)
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")


def test_without_scripts_everything_is_there_but_the_filter(browser, page):
    browser.open(page, scripts=False)
    assert browser.run("[...document.querySelectorAll('[data-needs-script]')].every((e) => !e.checkVisibility())")
    tab_to(browser, "details.finding > summary")
    browser.press("Enter")
    assert browser.run("document.activeElement.parentElement.querySelector('pre mark').checkVisibility()")


def test_every_control_and_region_has_a_name_and_the_page_its_landmarks(browser, page):
    browser.open(page)
    browser.run(OPEN_ALL)
    nodes = browser.tree()
    roles = {node["role"]["value"] for node in nodes}
    assert {
        "banner",
        "main",
        "contentinfo",
        "navigation",
        "searchbox",
        "checkbox",
        "radio",
        "button",
        "link",
        "table",
    } <= roles
    need = {
        "searchbox",
        "checkbox",
        "radio",
        "button",
        "link",
        "region",
        "img",
        "group",
        "radiogroup",
        "navigation",
        "dialog",
    }
    details = {"DETAILS"}
    nameless = [n for n in nodes if n["role"]["value"] in need and not n.get("name", {}).get("value", "").strip()]
    nodes_of = [
        browser.call("DOM.describeNode", backendNodeId=n["backendDOMNodeId"])["node"]["nodeName"] for n in nameless
    ]
    assert [name for name in nodes_of if name not in details] == []
    levels = [int(tag[1]) for tag in browser.run("[...document.querySelectorAll('h1, h2, h3')].map((h) => h.tagName)")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert browser.run("document.documentElement.lang") == "en"
    targets = "[...document.querySelectorAll('button, label, summary')].filter((e) => e.checkVisibility())"
    assert browser.run(f"{targets}.filter((e) => e.offsetHeight < 24).length") == 0  # WCAG 2.2, 2.5.8


def test_names_that_are_markup_stay_names(browser, page):
    browser.open(page)
    assert browser.run("document.querySelectorAll('script').length") == 1
    assert browser.run("document.body.textContent.includes('<script>alert(1)</script>.pcapng')")
    assert "\\u202e" in browser.run("document.body.textContent")
    assert "\u202e" not in browser.run("document.body.textContent")
    assert complaints(browser) == []


def test_motion_and_print_are_respected(browser, page):
    browser.open(page, motion="reduce")
    assert browser.run("getComputedStyle(document.documentElement).scrollBehavior") == "auto"
    browser.open(page, media="print")
    assert browser.run("[...document.querySelectorAll('nav, .controls')].some((e) => e.checkVisibility())") is False
    assert browser.run("getComputedStyle(document.querySelector('.scroll')).overflowX") == "visible"
