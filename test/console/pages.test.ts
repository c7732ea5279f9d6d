import assert from 'node:assert/strict';
import type { Page } from 'playwright-core';
import { PREVIEWS_PATH } from '../../apis/console.ts';
import type { RolloutState } from '../../apis/rollout.ts';
import { focusedText } from './browser.ts';
import { sampleDocuments } from './fake-console.ts';
import { type OpenPage, PageBed } from './page-bed.ts';
import { samplePolicy } from './sample-cluster.ts';

/** Every page, with what must be there by role and name. */
const PAGES: readonly { place: string; heading: string; tables: readonly string[] }[] = [
  { place: 'in-force', heading: 'In force', tables: ['Policies', '6 problems'] },
  { place: 'in-force?view=nodes', heading: 'In force', tables: ['Nodes'] },
  { place: 'in-force?view=grid', heading: 'In force', tables: [] },
  { place: 'drops', heading: 'Drops', tables: ['By rule', 'By node', 'By peer'] },
  { place: 'explain', heading: 'Explain', tables: [] },
  { place: 'preview', heading: 'Preview', tables: [] },
  { place: 'audit', heading: 'Audit', tables: ['By rule', 'By peer'] },
  { place: 'rollouts', heading: 'Rollouts', tables: [] },
  { place: 'lint', heading: 'Lint', tables: ['unreachable', 'selects-nothing', 'failsafe'] },
];
/** The rules of axe-core by which a scheme can differ from the other. */
const OF_COLOURS = ['color-contrast', 'link-in-text-block'];
const MANIFEST = 'apiVersion: nodewall.io/v1alpha1\nkind: ClusterNetworkPolicy\n';

describe('the console', function () {
  this.timeout(30_000);
  let bed: PageBed;
  let open: OpenPage;
  let page: Page;
  before(async function () {
    this.timeout(600_000);
    bed = await PageBed.start();
  });
  after(() => bed?.close());
  beforeEach(async () => {
    bed.fake.documents = sampleDocuments();
    bed.fake.refusals.clear();
    open = await bed.open();
    page = open.page;
  });
  afterEach(() => open.close());

  for (const scheme of ['light', 'dark'] as const) {
    it(`has all pages, ${scheme}, without errors, and without any that axe-core finds`, async () => {
      const { page: other, go, problems, axe, close } = await bed.open('', { colorScheme: scheme });
      const ground = await other.evaluate<string>(
        'getComputedStyle(document.documentElement).backgroundColor',
      );
      assert.equal(ground, scheme === 'light' ? 'rgb(255, 255, 255)' : 'rgb(20, 23, 27)');
      for (const { place, heading, tables } of PAGES) {
        await go(place);
        await other.getByRole('heading', { level: 1, name: heading }).waitFor();
        for (const name of tables) await other.getByRole('table', { name }).waitFor();
        assert.equal(await other.title(), `${heading} · nodewall`);
        assert.deepEqual(await axe(scheme === 'light' ? undefined : OF_COLOURS), [], place);
      }
      assert.deepEqual(await problems(), []);
      await close();
    });
  }

  it('says what is in force of each policy, and names its exceptions', async () => {
    const table = page.getByRole('table', { name: 'Policies' });
    await table.waitFor();
    assert.equal(await table.getByRole('rowheader').count(), 12);
    const row = table.getByRole('row', { name: /protect-ssh/ });
    assert.match(
      (await row.textContent()) ?? '',
      /15 of 24 nodes.*1 node off.*1 node silent.*7 another version/s,
    );
    await row.getByRole('button', { name: 'protect-ssh' }).click();
    const exceptions = page.getByRole('table', { name: 'Exceptions of protect-ssh' });
    assert.match((await exceptions.textContent()) ?? '', /cp-03, worker-02, worker-03.*another version/s);
    await page.getByRole('searchbox', { name: 'Names that contain' }).fill('telnet');
    assert.equal(await table.getByRole('rowheader').count(), 1);
    await page.getByRole('searchbox').fill('nothing of this name');
    await page.getByText('None of 12 policies fits.').waitFor();
    await page.getByRole('searchbox').fill('');
    await page.getByRole('checkbox', { name: 'Only where something is not as wanted' }).check();
    assert.equal(await table.getByRole('row', { name: /registry-mirror/ }).count(), 0);
    assert.match(page.url(), /only=exceptions/, 'the address can be sent');
  });

  it('shows a change when it comes', async () => {
    await page.getByRole('row', { name: /protect-api.*22 of 24/ }).waitFor();
    const policy = samplePolicy(0, 24);
    bed.fake.change({ policies: [{ ...policy, phase: 'Failed', generation: 9 }] });
    await page.getByRole('row', { name: /protect-api.*Failed.*newest 9/ }).waitFor();
  });

  it('has a grid that arrow keys walk through', async () => {
    await open.go('in-force?view=grid');
    const grid = page.getByRole('grid', { name: 'Nodes and policies' });
    await grid.waitFor();
    assert.deepEqual(
      [await grid.getAttribute('aria-rowcount'), await grid.getAttribute('aria-colcount')],
      ['25', '13'],
    );
    await grid.getByRole('gridcell').first().focus();
    for (const key of ['ArrowDown', 'ArrowDown', 'ArrowRight', 'ArrowRight', 'ArrowRight'])
      await page.keyboard.press(key);
    await page.getByText('cp-03 × protect-ssh: ≠another version, version 3 there, for 1 min').waitFor();
    await page.keyboard.press('Control+End');
    await page.getByText('worker-21 × worker-rest: does not apply').waitFor();
    const row = page.getByRole('row', { name: /worker-21/ });
    assert.equal(await row.getAttribute('aria-rowindex'), '25');
    await page.keyboard.press('Control+Home');
    await page.getByText('cp-01 × protect-api: ●in force, version 1, on all its nodes for 3 h').waitFor();
    await page.keyboard.press('Enter');
    assert.match(page.url(), /filter=protect-api/);
  });

  it('can be used by keyboard alone', async () => {
    const focused = () => focusedText(page);
    await page.keyboard.press('Tab');
    assert.equal(await focused(), 'Skip to the page');
    const seen: string[] = [];
    for (let i = 0; i < 7; i++) {
      await page.keyboard.press('Tab');
      seen.push(await focused());
    }
    assert.deepEqual(seen, ['In force', 'Drops', 'Explain', 'Preview', 'Audit', 'Rollouts', 'Lint']);
    for (let i = 0; i < 3; i++) await page.keyboard.press('Shift+Tab');
    assert.equal(await focused(), 'Preview');
    assert.notEqual(await page.evaluate(OUTLINE), 'none', 'the focus is seen');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: 'Preview' }).waitFor();
    await page.keyboard.press('Tab');
    await page.keyboard.type(MANIFEST);
    await page.keyboard.press('Control+Enter');
    await page
      .getByRole('row', { name: /newly denied/ })
      .first()
      .waitFor();
    const [request] = bed.fake.requests.filter(({ url }) => url === PREVIEWS_PATH);
    assert.deepEqual(request?.body, { yaml: MANIFEST });
  });

  it('explains a flow, and the address has the question', async () => {
    await open.go('explain');
    await page.getByRole('combobox', { name: 'Node' }).fill('worker-02');
    await page.getByRole('textbox', { name: 'From address' }).fill('203.0.113.9');
    await page.getByRole('textbox', { name: 'To port' }).fill('22');
    await page.keyboard.press('Enter');
    await page.getByText('Drop: rule protect-ssh/drop-ssh (tier securityops)').waitFor();
    assert.equal(
      await page
        .getByRole('table', { name: /Rules that were tested/ })
        .getByRole('row')
        .count(),
      5,
    );
    const { url = '' } = bed.fake.requests.findLast((request) => request.url.includes('explanation')) ?? {};
    assert.match(url, /\/nodeviews\/worker-02\/explanation\?/);
    assert.deepEqual(JSON.parse(new URL(url, 'http://a').searchParams.get('flow') ?? ''), {
      direction: 'ingress',
      src: '203.0.113.9',
      dstPort: 22,
      protocol: 'tcp',
    });
    const line = page.getByRole('textbox', { name: 'Command' });
    assert.match((await line.textContent()) ?? '', /^kubectl nodewall explain --node worker-02 --flow '\{/);
    const asked = bed.fake.requests.length;
    await page.reload();
    await page.getByText('Drop: rule protect-ssh/drop-ssh').waitFor();
    assert.ok(
      bed.fake.requests.slice(asked).some((request) => request.url === url),
      'it is asked again',
    );
  });

  it('shows a rollout once for its group, with lines for what can be done in its state', async () => {
    const commands: Readonly<Record<RolloutState, readonly string[]>> = {
      Progressing: ['pause', 'undo', 'promote'],
      Paused: ['resume', 'undo', 'promote'],
      Completed: [],
      Undone: ['promote'],
    };
    const { documents } = bed.fake;
    const [one = assert.fail()] = documents.overview.rollouts;
    const rollouts = Object.keys(commands).flatMap((state) =>
      ['x', 'y'].map((name) => ({
        ...one,
        policy: `${name}-${state}`,
        group: state,
        state: state as RolloutState,
      })),
    );
    bed.fake.documents = { ...documents, overview: { ...documents.overview, rollouts } };
    await open.go('in-force');
    await page.reload();
    await open.go('rollouts');
    for (const [state, expected] of Object.entries(commands)) {
      const article = page.getByRole('article', { name: `Rollout of x-${state}, y-${state}` });
      await article.waitFor();
      assert.deepEqual(
        await article.getByRole('textbox', { name: 'Command' }).allTextContents(),
        expected.map((command) => `kubectl nodewall rollout ${command} x-${state}`),
      );
    }
    assert.equal(await page.getByRole('article').count(), 4);
  });

  it('names the right that is missing, and the role that has it', async () => {
    const message = 'user "eve" may not get overviews.controlplane.nodewall.io "drops"';
    bed.fake.refusals.set('/overviews/drops', [403, message]);
    await open.go('drops');
    const alert = page.getByRole('alert');
    await alert.waitFor();
    const text = (await alert.textContent()) ?? '';
    assert.ok(text.includes(message), text);
    assert.match(text, /ClusterRole nodewall-view/);
    await page.getByRole('table', { name: 'By peer' }).waitFor();
    bed.fake.refusals.clear();
    await alert.getByRole('button', { name: 'Try again' }).click();
    await page.getByRole('table', { name: 'By rule' }).waitFor();
    assert.equal(await alert.count(), 0);
  });

  it('names it also where nothing at all may be seen', async () => {
    const { page: other, close } = await refused('user "eve" may not get overviews "cluster"');
    await other.getByRole('alert').getByText('user "eve" may not get overviews "cluster"').waitFor();
    await close();
  });

  async function refused(message: string): Promise<OpenPage> {
    bed.fake.refusals.set('/overviews', [403, message]);
    return await bed.open();
  }

  it('says that it is not live when its server is away, keeps what it had, and is live again', async () => {
    const status = page.getByRole('status').first();
    await status.getByText('Live · cluster').waitFor();
    await bed.fake.stop();
    await status.getByText(/Not live: .*Trying again within \d+ s/).waitFor();
    await page.getByText('What you see here is of Nov 26, 2026, 14:20:00 UTC.').waitFor();
    assert.equal(await page.getByRole('table', { name: 'Policies' }).getByRole('rowheader').count(), 12);
    bed.fake.documents = {
      ...bed.fake.documents,
      overview: { ...bed.fake.documents.overview, policies: [samplePolicy(0, 24)] },
    };
    await bed.fake.listen();
    await status.getByText('Live · cluster').waitFor({ timeout: 20_000 });
    assert.equal(await page.getByRole('table', { name: 'Policies' }).getByRole('rowheader').count(), 1);
  });

  it('says what there is where there is nothing', async () => {
    const { documents } = bed.fake;
    const { overview } = documents;
    const total = { packetsPerSecond: 0, packets: 0, series: [] };
    bed.fake.documents = {
      ...documents,
      overview: {
        ...overview,
        nodes: [],
        policies: [],
        rollouts: [],
        problems: [],
        isEnabled: false,
        remark: 'a remark',
      },
      drops: { ...documents.drops, total, rules: [], nodes: [] },
      peers: { ...documents.peers, flows: [] },
      audit: { ...documents.audit, rules: [], peers: [] },
      lint: { ...documents.lint, findings: [] },
    };
    const texts = {
      'in-force': [
        'No problems.',
        'There are no policies yet.',
        'The feature gate NodeNetworkPolicy is off',
        'a remark',
      ],
      'in-force?view=nodes': ['There are no nodes yet.'],
      'in-force?view=grid': ['There are no nodes yet.'],
      drops: ['Nothing was dropped or rejected since', 'These nodes know of no denied peer.'],
      audit: ['No policy has mode: Audit.'],
      rollouts: ['No policy has a rollout'],
      lint: ['Nothing to say of the policies'],
    };
    const { page: other, go, problems, axe, close } = await bed.open();
    for (const [place, expected] of Object.entries(texts)) {
      await go(place);
      for (const text of expected) await other.getByText(text).waitFor();
      assert.deepEqual(await axe(), [], place);
    }
    assert.deepEqual(await problems(), []);
    await close();
  });

  it('asks for nothing but reading and previews', () => {
    const methods = new Set(
      bed.fake.requests.map(({ method, url }) => (url === PREVIEWS_PATH ? 'preview' : method)),
    );
    assert.deepEqual([...methods].sort(), ['GET', 'preview']);
  });
});

const OUTLINE = `(() => {
  let element = document.activeElement;
  while (element?.shadowRoot?.activeElement) element = element.shadowRoot.activeElement;
  return getComputedStyle(element).outlineStyle;
})()`;
