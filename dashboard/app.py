"""Entry of the app: page settings, style and navigation."""

from pathlib import Path

import streamlit as st

from dashboard.services import login
from dashboard.widgets.open_dialog import forget_dialog_of_another_page

SCREENS = Path(__file__).parent / "screens"

st.set_page_config(page_title="Frontier", page_icon="📈", layout="wide")
# Streamlit leaves six rem above the first line and five beside: at 1440 × 900 that pushes a page's main part below the
# fold. The header row stays one line high; on a phone the query has a line of its own. Captions meet WCAG's AA.
# Popovers and dialogs lie outside of the part that has the theme's scheme, which light-dark() asks for.
# Share stands at the right end of the header on every page, whatever stands between.
# On a narrow screen the navigation is one button: the page's name stands beside it.
# A table's tool bar is below it: Streamlit has it above, where it lies over controls, or over the table's header.
# On a phone the tool bars of charts and tables would lie over the words beside them.
# Streamlit's own CSV of a table is made in the browser, where texts that a spreadsheet takes for formulas stay live.
APP_CSS = """<style>
.stMainBlockContainer {padding: 3.75rem 2rem 2rem}
.stMainBlockContainer > [data-testid=stVerticalBlock] {gap: .375rem}
[data-testid=stElementToolbarButton]:has([aria-label="Download as CSV"]) {display: none}
[data-testid=stElementToolbar] {top: 100% !important}
:is([data-testid=stPopoverBody], [role=dialog]) {color-scheme: light dark}
[data-testid=stCaptionContainer] {color: inherit; opacity: .78}
[data-testid=stCaptionContainer] code {font-size: .8125rem}
.stCode .token:is(.keyword, .class-name) {color: light-dark(#0550AE, #79B8FF) !important}
.st-key-header > .st-key-header-share {margin-left: auto}
[data-testid=stHeading] h2 {font-size: 1.5rem; padding: .5rem 0}
:is([data-testid=stTopNavLink], [data-testid=stSidebarNavLink]):focus-visible {
  outline: 2px solid light-dark(#4F46E5, #A5B4FC); outline-offset: 1px}
:is([data-testid=stTopNavLink], [data-testid=stSidebarNavLink]) span {color: light-dark(#1F2328, #E6EDF3)}
[data-testid^=stBaseButton-primary]:enabled {&, & p {color: light-dark(#fff, #1e1b4b)}}
[data-testid^=stBaseButton-primary]:enabled:is(:hover, :focus-visible, :active) {
  &, & p {background-color: light-dark(#4338CA, #C7D2FE)}}
.st-key-header-steps {position: absolute}
.frontier-title, .frontier-skip {position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%)}
.frontier-skip:focus {z-index: 1000000; inset: .5rem auto auto .5rem; width: auto; height: auto; padding: .5rem 1rem;
  clip-path: none; color: light-dark(#000, #fff); background: light-dark(#fff, #000); border: 2px solid}
@media (max-width: 767px) {
  .frontier-title {position: fixed; z-index: 999990; inset: 0 auto auto 3.25rem; width: auto; height: auto; margin: 0;
    padding: 0; clip-path: none; font-size: 1.125rem; line-height: 3.75rem; pointer-events: none}
}
@media (max-width: 640px) {
  [data-testid=stButtonGroup] > [role=radiogroup], [data-testid=stButtonGroup] > div {flex-wrap: wrap; row-gap: .25rem}
  .stMainBlockContainer {padding: 3.75rem 1rem 2rem}
  :is(.modebar-container, [data-testid=stElementToolbar]) {display: none}
  .st-key-header > [data-testid=stElementContainer]:has([data-testid=stSelectbox], [data-testid=stTextInput]) {
    flex: 1 1 9rem; min-width: 0; order: 9}
  .st-key-header {gap: .5rem}
  .st-key-header > :is(.st-key-header-k, :has([class*=st-key-header-step])) {order: 10}
  .st-key-header-share button {padding-inline: .5rem}
  .st-key-header-share button :is(p, [data-testid=stMarkdownContainer]) {position: absolute; width: 1px; height: 1px;
    overflow: hidden; clip-path: inset(50%)}
}
</style>"""
st.html(APP_CSS)
# Nothing of a page is imported before the sign-in.
if not login.is_signed_in():
    st.title("Frontier")
    st.text("Sign in to see this page.")
    for provider in login.list_providers():
        name = f"Sign in with {provider}" if provider else "Sign in"
        st.button(name, type="primary", on_click=st.login, args=(provider,))
    st.stop()
# Its address is that of the app, whatever its path is called; the name is left to the page that is sent here.
explore = st.Page(
    SCREENS / "explore.py", title="Explore", icon=":material/compare_arrows:", url_path="start", default=True
)


def open_explore() -> None:
    """Open the first page, whose address has no name, for those who write its name as they do for the others."""
    st.switch_page(explore, query_params=st.query_params.to_dict())


page = st.navigation(
    [
        explore,
        st.Page(open_explore, title="Explore", url_path="explore", visibility="hidden"),
        st.Page(SCREENS / "tradeoff.py", title="Trade-off", icon=":material/show_chart:"),
        st.Page(SCREENS / "tune.py", title="Tune", icon=":material/tune:"),
        st.Page(SCREENS / "drift.py", title="Drift", icon=":material/moving:"),
        st.Page(SCREENS / "theory.py", title="Theory", icon=":material/function:"),
        st.Page(SCREENS / "evidence.py", title="Evidence", icon=":material/fact_check:"),
        st.Page(SCREENS / "data.py", title="Data", icon=":material/database:"),
    ],
    position="top",
)
st.html(f'<h1 class="frontier-title">{page.title}</h1>')
forget_dialog_of_another_page(page.url_path)
page.run()
if login.is_login_required():
    with st.container(horizontal=True, horizontal_alignment="right", vertical_alignment="center"):
        st.text(str(st.user.to_dict().get("email", "")), width="content")
        st.button("Sign out", type="tertiary", icon=":material/logout:", on_click=st.logout)
