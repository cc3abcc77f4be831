"""Sources that pages link to, as pages of the site; on disk the links lead to the files."""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_LINK = re.compile(r"\]\(((?:\.\./)+[^)#]+)")
_LANGUAGES = {".py": "python", ".md": "markdown"}


def _place(page: File, target: str) -> str:
    """Where a link that leaves the docs folder leads to, from the root of the repository."""
    return posixpath.normpath(posixpath.join("docs", posixpath.dirname(page.src_uri), target))


def _shown(place: str) -> str:
    """Where the site has this file: text that it can colour as a page, others as they are."""
    return f"source/{place}.md" if Path(place).suffix in _LANGUAGES else f"source/{place}"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for every file outside the docs folder that a page links to."""
    root = Path(config.config_file_path).parent
    linked = {
        _place(page, target)
        for page in files.documentation_pages()
        for target in _LINK.findall(page.content_string)
    }
    for place in sorted(linked):
        text, language = (root / place).read_text(), _LANGUAGES.get(Path(place).suffix)
        if language:
            text = f"# {Path(place).name}\n\n`{place}`\n\n``````{language}\n{text}\n``````\n"
        files.append(File.generated(config, _shown(place), content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links that leave the docs folder to the pages made of their files."""
    here = posixpath.dirname(page.file.src_uri) or "."

    def led(match: re.Match[str]) -> str:
        return f"]({posixpath.relpath(_shown(_place(page.file, match[1])), here)}"

    return markdown if page.file.generated_by else _LINK.sub(led, markdown)
