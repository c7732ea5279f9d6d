import assert from 'node:assert/strict';
import { sampleDocuments } from './fake-console.ts';
import { hostileCopy, hostileText } from './hostile-texts.ts';
import { PageBed } from './page-bed.ts';

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
