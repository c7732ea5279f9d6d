/**
 * The files of the Debian package in /etc, and its unit; test/server installs the package itself.
 */

import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { bootUnits } from '../../agent/boot/boot-unit.ts';
import { parseConfig } from '../../apis/config-file.ts';
import { loadManifests } from '../../controller/watch/manifests.ts';
import { ROOT } from '../programs/folder.ts';

const read = (path: string) => readFile(join(ROOT, 'deploy', path), 'utf8');
/** As docs/server.md does. */
const uncommented = (text: string) => text.replace(/^#(\S| {2})/gm, '$1');

describe('the Debian package', () => {
  it('has an example of policies that is valid, and none before its "#" are taken away', async () => {
    const text = await read('deb/etc/manifests/server.yaml');
    const folder = await mkdtemp(join(tmpdir(), 'nodewall-example-'));
    try {
      for (const [content, policies] of [
        [text, []],
        [uncommented(text), ['server']],
      ] as const) {
        await writeFile(join(folder, 'server.yaml'), content);
        const { objects, problems } = await loadManifests([folder]);
        assert.deepEqual(problems, []);
        assert.deepEqual(
          objects.policies.map(({ name }) => name),
          policies,
        );
      }
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  it('has a configuration that is valid, with its examples and without', async () => {
    const text = await read('deb/etc/config.yaml');
    assert.notEqual(uncommented(text), text);
    for (const content of [text, uncommented(text)]) {
      const { config, problems } = parseConfig(content, 'config.yaml');
      assert.deepEqual(problems, []);
      assert.notEqual(config, null);
    }
    const { config } = parseConfig(uncommented(text), 'config.yaml');
    assert.deepEqual(config?.boot.ssh, ['198.51.100.0/24']);
  });

  it('enables the units of the boot with the agent, which starts after them', async () => {
    const unit = await read('systemd/nodewall.service');
    for (const name of bootUnits('/var/lib/nodewall').keys()) {
      assert.match(unit, new RegExp(`^Also=.*\\b${name}\\b`, 'm'));
      assert.match(unit, new RegExp(`^After=.*\\b${name}\\b`, 'm'));
    }
    assert.doesNotMatch(unit, /^ExecStop/m);
  });
});
