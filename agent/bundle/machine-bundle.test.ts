import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { parseConfig } from '../../apis/config-file.ts';
import { snapshotText } from '../../apis/snapshot.ts';
import { Bundle } from '../../lib/process/bundle.ts';
import { stateFile } from '../../lib/process/state-file.ts';
import { closing, nodeState } from '../../test/fake/node-state.ts';
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
    const bundle = new Bundle(path, { version: '0.1.0', now: 0 });
    await collectMachine({ bundle, stateDir, config, withFlows: false });
    const { parts } = await bundle.close();
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
});
