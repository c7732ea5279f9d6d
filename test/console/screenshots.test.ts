import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { relativeLinks } from '../docs/page-checks.ts';
import { ROOT } from '../structure/source-file.ts';
import { PageBed } from './page-bed.ts';

const FLOW = JSON.stringify({ direction: 'ingress', src: '203.0.113.9', protocol: 'tcp', dstPort: 22 });
/** By name of the image: what is on it. */
const SHOTS: Readonly<Record<string, { place: string; scheme?: 'dark'; height: number }>> = {
  'console-in-force': { place: 'in-force', height: 690 },
  'console-grid': { place: 'in-force?view=grid', scheme: 'dark', height: 1000 },
  'console-drops': { place: 'drops', height: 900 },
  'console-explain': { place: `explain?node=cp-01&flow=${encodeURIComponent(FLOW)}`, height: 560 },
  'console-preview': { place: 'preview', height: 1020 },
  'console-rollouts': { place: 'rollouts', height: 800 },
};
const MANIFEST = `apiVersion: nodewall.io/v1alpha1
kind: ClusterNetworkPolicy
metadata: {name: protect-ssh}
spec:
  tier: networkops
  priority: 13
  appliedTo: [{nodeSelector: {}}]
  ingress:
    - name: office
      action: Allow
      from: [{ipBlock: {cidr: 10.20.0.0/16}}]
      ports: [{protocol: TCP, port: 22}, {protocol: TCP, port: 2222}]
    - {name: drop-ssh, action: Drop, ports: [{protocol: TCP, port: 22}]}
`;
/** Bytes. */
const LARGEST = 150_000;
const FOLDER = join(ROOT, 'docs/images');

describe('screenshots in docs/console.md', function () {
  this.timeout(60_000);

  it('are those that this test makes, small, and shown', () => {
    const text = readFileSync(join(ROOT, 'docs/console.md'), 'utf8');
    const shown = relativeLinks(text).filter((link) => link.startsWith('images/'));
    assert.deepEqual(
      shown.sort(),
      Object.keys(SHOTS)
        .map((name) => `images/${name}.png`)
        .sort(),
    );
    for (const name of Object.keys(SHOTS)) {
      const bytes = readFileSync(join(FOLDER, `${name}.png`)).length;
      assert.ok(bytes <= LARGEST, `${name}: ${bytes} bytes; NODEWALL_UPDATE_GOLDENS=1 makes it again`);
    }
  });

  if (process.env.NODEWALL_UPDATE_GOLDENS === '1') {
    it('are made again', async function () {
      this.timeout(600_000);
      await mkdir(FOLDER, { recursive: true });
      const bed = await PageBed.start();
      for (const [name, { place, scheme = 'light', height }] of Object.entries(SHOTS)) {
        const viewport = { width: 1280, height };
        const { page, problems, close } = await bed.open(place, { viewport, colorScheme: scheme });
        if (place === 'preview') {
          await page.getByRole('textbox').fill(MANIFEST);
          await page.getByRole('button', { name: 'Show what changes' }).click();
          await page.getByRole('table', { name: /Impact/ }).waitFor();
        }
        if (place === 'drops') await page.getByRole('table', { name: 'By peer' }).waitFor();
        if (place === 'drops') await page.getByRole('table', { name: 'By rule' }).waitFor();
        if (place.startsWith('explain')) await page.getByRole('table').waitFor();
        if (place.endsWith('grid')) await page.getByRole('gridcell').nth(15).focus();
        await page.getByText('Live · cluster').waitFor();
        await page.screenshot({ path: join(FOLDER, `${name}.png`) });
        assert.deepEqual(await problems(), []);
        await close();
      }
      await bed.close();
    });
  }
});
