import assert from 'node:assert/strict';
import { sampleDocuments } from './fake-console.ts';
import { PageBed } from './page-bed.ts';

/** Names, reasons and lines of logs as somebody would write them who wants a script to run. */
const FORMS: readonly ((run: string) => string)[] = [
  (run) => `<script>${run}</script>`,
  (run) => `<img src=x onerror="${run}">`,
  (run) => `<svg onload=${run}>`,
  (run) => `<svg><animate onbegin=${run} attributeName=x dur=1s>`,
  (run) => `<svg><script>${run}</script></svg>`,
  (run) => `<iframe srcdoc="<script>parent.${run}</script>"></iframe>`,
  (run) => `<iframe src="javascript:parent.${run}"></iframe>`,
  (run) => `<details open ontoggle=${run}>`,
  (run) => `<style>@import 'data:text/css,*{color:red}';</style><b onmouseover=${run}>`,
  (run) => `<a href="javascript:${run}">x</a>`,
  (run) => `javascript:${run}`,
  (run) => `data:text/html,<script>${run}</script>`,
  (run) => `" onfocus="${run}" autofocus x="`,
  (run) => `' onmouseover='${run}' '`,
  (run) => `"><script>${run}</script>`,
  (run) => `--><script>${run}</script><!--`,
  (run) => `</title></textarea><script>${run}</script>`,
  (run) => `\${${run}}`,
  (run) => `{{constructor.constructor('${run}')()}}`,
  (run) => `<form action="javascript:${run}"><button id=a>`,
  (run) => `<base href="http://10.9.9.9/"><link rel=stylesheet href=//10.9.9.9/${run}>`,
  (run) => `<meta http-equiv=refresh content="0;url=javascript:${run}">`,
  (run) => `<x style="background:url(//10.9.9.9/${run})">`,
  (run) => `<lit-x?${run}><!--?lit$123$--><?lit$123$>`,
  (run) => `__proto__ ${run}`,
  (run) => `\u202e\u0000\u001b[31m\r\n\t${run}\ufeff\ud800`,
  (run) => `${'\u0301'.repeat(60)}<b>${run}`,
  (run) => `${'W'.repeat(500)}<script>${run}</script>`,
  (run) => `#/lint?x=${run}&view=grid`,
  (run) => `'; ${run}; kubectl delete nodes --all; echo '`,
];

/** Each would set `pwned`, and is found in no other. */
function hostileText(index: number): string {
  const form = FORMS[index % FORMS.length];
  return form === undefined ? '' : form(`globalThis.pwned=${index}`);
}

/** Fields that are texts of others. */
const TEXTS = new Set([
  ...[
    'name',
    'message',
    'reason',
    'remark',
    'object',
    'rule',
    'policy',
    'peer',
    'node',
    'tier',
    'by',
    'version',
  ],
  ...[
    'error',
    'flowsText',
    'peersText',
    'before',
    'after',
    'path',
    'progress',
    'revision',
    'nodes',
    'waiting',
  ],
  ...['protocol', 'guardrail', 'exemption'],
]);

/** A copy of a document in which all texts of others are hostile; times and numbers stay. */
function hostileCopy<T>(document: T): T {
  let next = 0;
  const copy = (value: unknown, key: string): unknown => {
    if (typeof value === 'string') return TEXTS.has(key) ? hostileText(next++) : value;
    if (Array.isArray(value)) return value.map((item) => copy(item, key));
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, copy(item, name)]));
  };
  return copy(document, '') as T;
}

const PLACES = [
  ...[
    'in-force',
    'in-force?view=nodes',
    'in-force?view=grid',
    'drops',
    'preview',
    'audit',
    'rollouts',
    'lint',
  ],
  `explain?node=${encodeURIComponent(hostileText(1))}&flow=${encodeURIComponent('{"direction":"ingress"}')}`,
];

describe('the console and hostile texts', function () {
  this.timeout(60_000);
  let bed: PageBed;
  before(async function () {
    this.timeout(600_000);
    bed = await PageBed.start(hostileCopy(sampleDocuments({ nodes: 200, policies: 200 })));
  });
  after(() => bed?.close());

  it('runs none of 200 in names, reasons and messages, and breaks no rule of its policy', async () => {
    const { overview } = bed.fake.documents;
    assert.equal(new Set(overview.policies.map(({ name }) => name)).size, 200);
    const { page, go, problems, close } = await bed.open();
    const widths: string[] = [];
    for (const place of PLACES) {
      await go(place);
      if (place === 'preview') {
        await page.getByRole('textbox').fill(hostileText(0));
        await page.getByRole('button', { name: 'Show what changes' }).click();
        await page.getByRole('heading', { name: 'Difference' }).waitFor();
      } else await page.getByText('globalThis.pwned=').first().waitFor();
      await page.evaluate(OPEN_ALL);
      assert.equal(await page.evaluate('globalThis.pwned'), undefined, place);
      assert.deepEqual(await page.evaluate(FOREIGN), [], `${place}: elements that no template has`);
      const width = await page.evaluate<number>('document.documentElement.scrollWidth');
      if (width > 1280) widths.push(`${place}: long words widen the page to ${width} pixels`);
    }
    assert.deepEqual(widths, []);
    // They are shown, as they are.
    await go('in-force');
    const names = await page
      .getByRole('table', { name: 'Policies' })
      .getByRole('rowheader')
      .allTextContents();
    const shown = new Set(names.map((name) => name.trim()));
    const first = overview.policies[0]?.name ?? '';
    assert.ok(
      [...shown].some((name) => name.includes(first.trim())),
      first,
    );
    assert.deepEqual(await problems(), []);
    await close();
  });

  it('runs none in an address', async () => {
    bed.fake.documents = sampleDocuments();
    const { page, problems, close } = await bed.open();
    for (let i = 0; i < 30; i++) {
      const text = encodeURIComponent(hostileText(i).toWellFormed());
      for (const place of [
        `${text}`,
        `in-force?view=${text}&filter=${text}`,
        `explain?node=x&flow=${text}`,
      ]) {
        await page.evaluate(`location.hash = ${JSON.stringify(`#/${place}`)}`);
        await page.locator('h1').waitFor();
      }
    }
    assert.equal(await page.evaluate('globalThis.pwned'), undefined);
    assert.deepEqual(await problems(), []);
    await close();
  });
});

const OPEN_ALL = `(async () => {
  const all = (root) => [...root.querySelectorAll('*')].flatMap((element) =>
    [element, ...(element.shadowRoot ? all(element.shadowRoot) : [])]);
  for (const element of all(document)) if (element.getAttribute('aria-expanded') === 'false') element.click();
  await new Promise(requestAnimationFrame);
})()`;

/** Elements by which a script or another origin could come in. */
const FOREIGN = `(() => {
  const found = [];
  const walk = (root) => {
    for (const element of root.querySelectorAll('*')) {
      const { localName } = element;
      if (['script', 'iframe', 'img', 'style', 'base', 'meta', 'animate', 'form'].includes(localName)) {
        const isOwn = root === document ? element.parentNode === document.head : localName === 'form';
        if (!isOwn) found.push(localName);
      }
      for (const { name, value } of element.attributes)
        if (/^on/.test(name) || (name === 'href' && !/^(#|data:,|\\.\\/)/.test(value))) found.push(name + '=' + value);
      if (element.shadowRoot) walk(element.shadowRoot);
    }
  };
  walk(document);
  return found;
})()`;
