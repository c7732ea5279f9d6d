import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { parseConfig } from '../../apis/config-file.ts';
import { snapshotText } from '../../apis/wire.ts';
import { SupportBundle } from '../../lib/process/bundle.ts';
import { stateFile } from '../../lib/process/state-file.ts';
import { closing, nodeState } from '../../test/fake/node-state.ts';
import { FLOWS_FILE, FlowInventory, inventoryText } from '../flows/flow-inventory.ts';
import type { SeenFlow } from '../flows/flow-kind.ts';
import { collectMachine } from './machine-bundle.ts';

const CONFIG = `# password: planted-1
guard:
  probes: [{name: mirror, http: "http://jane:planted-2@192.0.2.7/x?key=planted-3"}]
`;

describe('support bundle of a machine', () => {
  let stateDir: string;
  beforeEach(async () => {
    stateDir = await mkdtemp(join(tmpdir(), 'nodewall-machine-'));
  });
  afterEach(() => rm(stateDir, { recursive: true }));

  it('has its state, records, settings and kernel, and no credential', async () => {
    const { config } = parseConfig(CONFIG, 'config.yaml');
    assert.ok(config !== null);
    await stateFile(stateDir, 'node-state.jsonl').write(snapshotText()(nodeState(closing('web', 80))));
    await writeFile(
      join(stateDir, 'records.jsonl'),
      '{"time":"2026-01-01T00:00:00Z","node":"n","dstPort":80}\n',
    );
    await writeFile(join(stateDir, 'planted'), 'planted-4');
    const path = join(stateDir, 'bundle.tar.gz');
    const bundle = new SupportBundle(path, { version: '0.1.0', now: 0 });
    await collectMachine({ bundle, stateDir, config, withFlows: false });
    const { parts, leftOut } = await bundle.close();
    assert.deepEqual(
      leftOut.map(({ what }) => what),
      ['flows'],
    );
    const names = parts.map(({ name }) => name);
    for (const name of ['machine', 'counters', 'names', 'interfaces', 'records'])
      assert.ok(names.includes(`${name}.json`), `${name}: ${names.join()}`);
    const { stdout } = await promisify(execFile)('tar', ['-xzOf', path]);
    for (const text of [
      '"policy":"web"',
      '"dstPort":80',
      '"address":"192.0.2.7"',
      '"kernel":',
      '"name":"lo"',
    ])
      assert.ok(stdout.includes(text), text);
    assert.ok(!stdout.includes('planted-'), stdout);
  });

  it('has the flow inventory if it is asked for, and names the lack of one', async () => {
    const collected = async (name: string) => {
      const path = join(stateDir, name);
      const bundle = new SupportBundle(path, { version: '0.1.0', now: 0 });
      await collectMachine({ bundle, stateDir, config: DEFAULT_CONFIG, withFlows: true });
      const manifest = await bundle.close();
      const hasFlows = manifest.parts.some(({ name }) => name === 'flows.jsonl');
      const part = hasFlows ? 'flows.jsonl' : 'manifest.json';
      const read = ['-xzOf', path, `${name.replace('.tar.gz', '')}/${part}`];
      return { manifest, text: (await promisify(execFile)('tar', read)).stdout };
    };
    const { missing } = (await collected('without.tar.gz')).manifest;
    assert.match(missing.find(({ what }) => what === 'flows.jsonl')?.why ?? '', /no flow inventory/);

    const inventory = new FlowInventory(Date.now());
    const flow: SeenFlow = {
      direction: 'ingress',
      traffic: 'Host',
      verdict: 'Allow',
      protocol: 6,
      group: 0,
      peer: '198.51.100.9',
      port: 22,
      type: null,
      code: null,
      local: '192.0.2.1',
      srcPort: 40_000,
      originalDst: null,
      originalPort: null,
    };
    inventory.seen(inventory.kindOf(flow, Date.now()), flow, { now: Date.now(), connections: 1 });
    await stateFile(stateDir, FLOWS_FILE).write(inventoryText(inventory, 'n1'));
    const { manifest, text } = await collected('with.tar.gz');
    const [first = '', ...kinds] = text.trimEnd().split('\n');
    assert.equal(JSON.parse(first).node, 'n1');
    assert.ok(kinds.some((line) => JSON.parse(line).peer === '198.51.100.9'));
    assert.deepEqual(manifest.leftOut, []);
  });
});
