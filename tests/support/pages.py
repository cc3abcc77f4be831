"""A parser that reads a page back."""

from html.parser import HTMLParser


class Page(HTMLParser):
    """Gathers the elements of a page, and checks that they are closed in order."""

    VOID = ("meta", "br", "link", "img", "input", "hr")

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.text = [], [], ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data

    def count(self, tag, class_=None):
        found = [attrs for name, attrs in self.tags if name == tag]
        return len([a for a in found if class_ is None or class_ in (a.get("class") or "").split()])
