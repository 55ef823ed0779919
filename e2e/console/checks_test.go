package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// accessibility returns the violations that axe-core finds, and the cases it cannot decide, in a page whose theme
// is light.
func (b *tab) accessibility() []string {
	b.t.Helper()
	return b.axe(`["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]`)
}

// colours returns what axe-core finds in a page of any theme. It applies only the rules that depend on the theme.
func (b *tab) colours() []string {
	b.t.Helper()
	return b.axe(`{type: "rule", values: ["color-contrast", "link-in-text-block"]}`)
}

// axe runs axe-core with the given rules in an isolated world, to which the policy of the page does not apply, and
// in which the page does not see the variables of axe-core.
func (b *tab) axe(rules string) []string {
	b.t.Helper()
	// A symbol before a word (nonBmp) need not have the contrast of text, and axe-core cannot tell what is behind
	// text in a drawing (bgOverlap).
	run := `axe.run(document, {
		runOnly: ` + rules + `, resultTypes: ["violations", "incomplete"], preload: false,
	}).then(found => found.violations.concat(found.incomplete).flatMap(rule => rule.nodes
		.filter(node => !node.any.some(check => check.data?.messageKey === "nonBmp" ||
			check.data?.messageKey === "bgOverlap" && document.querySelector(node.target[0])?.closest("svg")))
		.map(node => rule.id + ": " + node.target.join(" ") + ": " + (node.failureSummary || rule.help).replace(/\s+/g, " "))))`
	var found []string
	b.do("run axe-core", chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		tree, err := cdp.Call(ctx, target, page.GetFrameTree, cdp.Empty{})
		if err != nil {
			return err
		}
		world, err := cdp.Call(ctx, target, page.CreateIsolatedWorld, page.CreateIsolatedWorldParams{FrameID: tree.FrameTree.Frame.ID, WorldName: "axe"})
		if err != nil {
			return err
		}
		yes := true
		result, err := cdp.Call(ctx, target, runtime.Evaluate, runtime.EvaluateParams{
			ContextID: world.ExecutionContextID, Expression: axe + ";\n" + run, AwaitPromise: &yes, ReturnByValue: &yes,
		})
		if err != nil {
			return err
		}
		if result.ExceptionDetails != nil {
			return fmt.Errorf("exception: %s", description(result.ExceptionDetails.Exception))
		}
		return json.Unmarshal(result.Result.Value, &found)
	}))
	return found
}

// overflow returns the elements that make the page scroll sideways. It skips elements that scroll on their own,
// and their contents.
func (b *tab) overflow() []string {
	b.t.Helper()
	return evaluate[[]string](b, fmt.Sprintf(`(() => {
		const width = %d, found = [];
		const page = Math.max(innerWidth, document.documentElement.scrollWidth, document.body.scrollWidth);
		if (page <= width) return found;
		const look = element => {
			for (const child of element.children) {
				const box = child.getBoundingClientRect();
				if (box.right > width + 0.5) found.push(name(child) + " ends at " + Math.round(box.right) + " of " + width);
				if (getComputedStyle(child).overflowX === "visible") look(child);
			}
		};
		look(document.body);
		found.push("the page is " + page + " wide, the window " + width);
		return found;
		%s
	})()`, b.width, nameFunction))
}

// nameFunction is the source of the JavaScript function name, which describes an element.
const nameFunction = `function name(e) {
	const text = (e.getAttribute("aria-label") || e.innerText || e.name || "").trim().replace(/\s+/g, " ").slice(0, 40);
	return e.localName + (e.id ? "#" + e.id : "") + (typeof e.className === "string" && e.className ? "." + e.className.trim().replace(/\s+/g, ".") : "") + " " + JSON.stringify(text);
}`

// maxStops limits how many times keyboard presses Tab on a page.
const maxStops = 400

// keyboard goes through the page with Tab and returns what is wrong: controls that Tab does not reach, or reaches
// out of order, and a focus that is not visible or is covered by something else.
func (b *tab) keyboard() []string {
	b.t.Helper()
	wanted := evaluate[int](b, `(() => {
		document.body.tabIndex = -1; // Tab begins at the top
		document.body.focus();
		document.body.removeAttribute("tabindex");
		scrollTo(0, 0);
		const closed = e => { const d = e.parentElement?.closest("details:not([open])"); return d && d.querySelector(":scope > summary") !== e; };
		const controls = [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex]")]
			.filter(e => !e.disabled && e.tabIndex >= 0 && e.checkVisibility({visibilityProperty: true}) && !closed(e));
		controls.forEach((e, i) => e.setAttribute("data-stop", i));
		return controls.length;
	})()`)
	var found []string
	reached := -1
	for range maxStops {
		b.tabulate()
		stop := evaluate[struct {
			Name  string
			Stop  *int
			Wrong string
		}](b, `(() => {
			const e = document.activeElement;
			if (!e || e === document.body) return {Name: ""};
			const style = getComputedStyle(e), box = e.getBoundingClientRect(), wrong = [];
			const ring = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1 || style.boxShadow !== "none";
			if (!ring) wrong.push("shows no focus");
			const x = Math.min(Math.max((box.left + Math.min(box.right, innerWidth)) / 2, 0), innerWidth - 1), y = Math.min(Math.max((box.top + box.bottom) / 2, 0), innerHeight - 1);
			const top = document.elementFromPoint(x, y);
			if (box.bottom <= 0 || box.top >= innerHeight || box.right <= 0 || box.left >= innerWidth) wrong.push("is outside of the window");
			else if (top && !e.contains(top) && !top.contains(e)) wrong.push("is covered by " + name(top));
			const stop = e.getAttribute("data-stop");
			return {Name: name(e), Stop: stop === null ? null : Number(stop), Wrong: wrong.join(", ")};
			`+nameFunction+`
		})()`)
		if stop.Name == "" {
			break
		}
		if stop.Wrong != "" {
			found = append(found, stop.Name+" "+stop.Wrong)
		}
		if stop.Stop == nil {
			continue // an element that scrolls
		}
		if *stop.Stop != reached+1 {
			found = append(found, fmt.Sprintf("Tab leads to control %d, %s, after control %d", *stop.Stop, stop.Name, reached))
		}
		if reached = *stop.Stop; reached == wanted-1 {
			break
		}
	}
	if reached != wanted-1 {
		found = append(found, fmt.Sprintf("Tab reached %d of %d controls", reached+1, wanted))
	}
	return found
}

// expect fails the test for each finding.
func (b *tab) expect(check string, found []string) {
	b.t.Helper()
	if len(found) > 0 {
		b.t.Errorf("%s:\n  %s", check, strings.Join(found, "\n  "))
	}
}
