import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AddressSet, NodeState } from '../../apis/compiled.ts';
import { DEFAULT_CONFIG, type NamesConfig } from '../../apis/config.ts';
import { formatMembers, toMemberSet } from '../../lib/net/member-set.ts';
import { createLog } from '../../lib/process/log.ts';
import { type FakeDns, fakeDns } from '../../test/dns/server.ts';
import { type Envelope, envelopeOf } from '../apply/envelope.ts';
import { type NameOverlay, nameOverlay } from './layers.ts';

function stateWith(...names: readonly string[]): NodeState {
  const members = toMemberSet([], ['10.0.0.1']);
  const set: AddressSet = { id: 'peers-1', description: '', dynamic: true, names, members };
  return {
    node: 'n',
    rules: [],
    addressSets: new Map([['peers-1', set]]),
    serviceSets: new Map(),
    allNodes: '',
    controllers: '',
    apiServerPorts: [],
    nodeAddresses: [],
  };
}
const addressesIn = (state: NodeState | undefined): string =>
  [...(state?.addressSets.values() ?? [])].flatMap(({ members }) => formatMembers(members)).join();

describe('nameOverlay', () => {
  let stateDir: string;
  let dns: FakeDns;
  let passed: Envelope[];
  let submitted: NodeState[];
  const open: NameOverlay[] = [];
  beforeEach(async () => {
    stateDir = await mkdtemp(join(tmpdir(), 'nodewall-names-'));
    dns = await fakeDns({ 'a.test': { A: ['192.0.2.1'] }, 'slow.test': { A: ['192.0.2.2'], delay: 300 } });
    passed = [];
    submitted = [];
  });
  afterEach(async () => {
    for (const overlay of open.splice(0)) await overlay.close();
    await dns.close();
    await rm(stateDir, { recursive: true });
  });

  function overlay(once: boolean, config: Partial<NamesConfig> = {}): NameOverlay {
    const one = nameOverlay({
      config: { ...DEFAULT_CONFIG.names, servers: [dns.server], learn: false, ...config },
      clock: {
        now: () => performance.now(),
        after(milliseconds, callback) {
          const timer = setTimeout(callback, milliseconds);
          return () => clearTimeout(timer);
        },
      },
      log: createLog({ logFormat: 'json', logLevel: 'error' }),
      stateDir,
      once,
      apiServer: () => [],
      next(envelope) {
        passed.push(envelope);
        submitted.push(envelope.resolved);
      },
    });
    open.push(one);
    return one;
  }
  async function until(condition: () => boolean): Promise<void> {
    for (let i = 0; i < 500 && !condition(); i++) await new Promise((resolve) => setTimeout(resolve, 10));
    assert(condition());
  }

  it('passes on a state without names as the same object', async () => {
    const state = stateWith();
    const names = overlay(false);
    names.submit(envelopeOf(state));
    assert.equal(submitted[0], state);
    assert.equal(names.over(state), state);
    await names.idle();
    assert.equal(submitted.length, 1);
  });

  it('submits at once, and again when names resolve; saves the state without resolved addresses', async () => {
    const state = stateWith('a.test');
    const names = overlay(false);
    names.submit(envelopeOf(state));
    await until(() => submitted.length === 2);
    assert.deepEqual(submitted.map(addressesIn), ['10.0.0.1', '10.0.0.1,192.0.2.1']);
    for (const { plain } of passed) assert.equal(plain, state, 'without addresses, to be saved');
  });

  it('submits only the newest of several states before names are loaded', async () => {
    const names = overlay(false);
    names.submit(envelopeOf(stateWith('a.test')));
    const last = stateWith('slow.test');
    names.submit(envelopeOf(last));
    await names.idle();
    assert.equal(submitted.length, 1);
    assert.equal(passed[0]?.plain, last);
    await until(() => addressesIn(submitted.at(-1)).endsWith('192.0.2.2'));
  });

  it('for --once resolves first, and submits once', async () => {
    const names = overlay(true);
    names.submit(envelopeOf(stateWith('a.test', 'slow.test', 'missing.test')));
    await names.idle();
    assert.deepEqual(submitted.map(addressesIn), ['10.0.0.1,192.0.2.1,192.0.2.2']);
  });

  it('starts with the addresses of the last run', async () => {
    const first = overlay(true);
    first.submit(envelopeOf(stateWith('a.test')));
    await first.idle();
    await first.close();
    dns.serve({ 'a.test': { silent: true } });
    overlay(false).submit(envelopeOf(stateWith('a.test')));
    await until(() => submitted.length === 2);
    assert.equal(addressesIn(submitted[1]), '10.0.0.1,192.0.2.1');
  });

  it('enforces without names if there is no DNS server', async () => {
    const names = overlay(true, { servers: ['nonsense'] });
    names.submit(envelopeOf(stateWith('a.test')));
    await names.idle();
    assert.deepEqual(submitted.map(addressesIn), ['10.0.0.1']);
  });
});
