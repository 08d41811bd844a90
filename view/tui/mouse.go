package tui

import tea "charm.land/bubbletea/v2"

// wheelRows is how many rows one notch of the mouse wheel scrolls.
const wheelRows = 3

// wheel scrolls the table or the sheet.
func (a *App) wheel(b tea.MouseButton) {
	key := map[tea.MouseButton]string{tea.MouseWheelUp: "up", tea.MouseWheelDown: "down"}[b]
	for range wheelRows {
		if a.sheet > keysSheet {
			a.scroll(key)
		} else if a.sheet == noSheet {
			a.move(key)
		}
	}
}

// click selects the tab or the row under the mouse, and opens a row that is already selected.
func (a *App) click(m tea.Mouse) tea.Cmd {
	switch {
	case m.Button != tea.MouseLeft:
	case a.sheet != noSheet:
		a.sheet = noSheet
	case m.Y == a.tabsAt:
		for i, end := range a.tabEnds {
			if m.X < end {
				a.show(Screen(i))
				return nil
			}
		}
	case m.Y >= a.rowsAt && m.Y < a.rowsAt+a.rows():
		w := &a.state().window
		if at := w.Top + m.Y - a.rowsAt; at != w.Index {
			w.Key, w.Index = "", at
			return nil
		}
		return a.enter()
	}
	return nil
}
