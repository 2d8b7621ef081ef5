/* Follows the operator: when the feed says that something changed, the page is fetched again and what differs is put in place,
   so that scrolling and selected text stay. Without the feed, and so that ages stay right, it is fetched from time to time. */
"use strict";

(() => {
	const LEAST_MS = 500; /* between two fetches */
	const OFTEN_MS = 15000; /* fetched at least so often while somebody looks */
	const main = document.querySelector("main");
	const follows = document.getElementById("follows");
	let fetching = false;
	let asked = false;
	let wait = 1000;

	function say(text, live) {
		follows.textContent = text;
		follows.classList.toggle("live", live);
	}

	/* Makes `old` equal to `now`, touching only what differs. */
	function become(old, now) {
		if (old.isEqualNode(now)) {
			return;
		}
		if (old.nodeName !== now.nodeName) {
			old.replaceWith(document.importNode(now, true));
			return;
		}
		if (old.nodeType !== Node.ELEMENT_NODE) {
			old.nodeValue = now.nodeValue;
			return;
		}
		for (const { name } of [...old.attributes]) {
			if (!now.hasAttribute(name)) {
				old.removeAttribute(name);
			}
		}
		for (const { name, value } of now.attributes) {
			old.setAttribute(name, value);
		}
		while (old.childNodes.length > now.childNodes.length) {
			old.lastChild.remove();
		}
		now.childNodes.forEach((child, i) => {
			if (i < old.childNodes.length) {
				become(old.childNodes[i], child);
			} else {
				old.append(document.importNode(child, true));
			}
		});
	}

	async function refresh() {
		asked = true;
		if (fetching) {
			return;
		}
		fetching = true;
		while (asked) {
			asked = false;
			try {
				const answer = await fetch(location.pathname, { cache: "no-store" });
				if (answer.ok) {
					const page = new DOMParser().parseFromString(await answer.text(), "text/html");
					document.title = page.title;
					become(main, page.querySelector("main"));
				}
			} catch {
				/* The feed says that the operator is away. */
			}
			await new Promise((done) => setTimeout(done, LEAST_MS));
		}
		fetching = false;
	}

	function follow() {
		const feed = new WebSocket(new URL("status/feed", location.href).href.replace(/^http/, "ws"));
		feed.onopen = () => {
			wait = 1000;
			say("follows changes", true);
		};
		feed.onmessage = (message) => {
			if (JSON.parse(message.data).resourceVersion !== main.dataset.version) {
				refresh();
			}
		};
		feed.onclose = () => {
			say("no connection to the operator", false);
			setTimeout(follow, wait);
			wait = Math.min(2 * wait, 30000);
		};
	}

	setInterval(() => document.hidden || refresh(), OFTEN_MS);
	document.addEventListener("visibilitychange", () => document.hidden || refresh());
	follow();
})();
