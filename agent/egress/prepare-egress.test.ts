import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type Config, DEFAULT_CONFIG } from '../../apis/config.ts';
import type { Log } from '../../lib/process/log.ts';
import type { ExtensionContext } from '../extension/agent-extension.ts';
import { requiredFile } from './pods/plugin.ts';
import { prepareEgress } from './prepare-egress.ts';

const LOG = { error: assert.fail } as unknown as Log;

describe('egress gateways of an agent, before it enforces anything', () => {
  let stateDir: string;
  beforeEach(async () => {
    stateDir = await mkdtemp(join(tmpdir(), 'nodewall-egress-'));
  });
  afterEach(() => rm(stateDir, { recursive: true }));

  it('are off without the feature gate: pods no longer wait for the agent', async () => {
    const required = requiredFile(stateDir);
    await mkdir(dirname(required), { recursive: true });
    await writeFile(required, '');
    const prepared = await prepareEgress({ stateDir, config: DEFAULT_CONFIG, log: LOG });
    assert.ok(existsSync(required), 'not before it enforces');
    assert.equal(await prepared.open({} as ExtensionContext), null);
    assert.ok(!existsSync(required));
  });

  it('have a key for other nodes where the tunnel is encrypted', async () => {
    const config: Config = { ...DEFAULT_CONFIG, featureGates: { EgressGateway: true } };
    const plain = await prepareEgress({ stateDir, config, log: LOG });
    assert.equal(plain.publicKey, null);
    const encrypted: Config = { ...config, egress: { ...config.egress, encryption: 'WireGuard' } };
    const { publicKey } = await prepareEgress({ stateDir, config: encrypted, log: LOG });
    assert.equal(Buffer.from(publicKey ?? '', 'base64').length, 32);
    const again = await prepareEgress({ stateDir, config: encrypted, log: LOG });
    assert.equal(again.publicKey, publicKey, 'the same in the next run');
  });
});
