import assert from 'node:assert/strict';
import { Ipset } from 'ipset-ts';
import { createFakeExec } from 'ipset-ts/fake';
import { addressSet } from '../../../test/fake/iptables-ruleset.ts';
import { collectSets } from './remove.ts';
import { setChange } from './set-change.ts';

describe('the removal of sets', () => {
  const names = ['nodewall-a', 'nodewall-b', 'nodewall-c'];
  const destroys = names.map((name) => ({ op: 'destroy', name }) as const);
  let used: Map<string, number>;
  let ipset: Ipset;
  let pauses: number[];
  const pause = async (wait: number): Promise<void> => void pauses.push(wait);

  beforeEach(async () => {
    pauses = [];
    const fake = createFakeExec();
    used = new Map();
    ipset = new Ipset(async (args, options = {}) => {
      const given = options.stdin ?? args.join(' ');
      const lines = (typeof given === 'string' ? given : [...given].join('')).split('\n');
      const at = lines.findIndex((line) => {
        const name = line.split(' ').at(-1) ?? '';
        return line.includes('destroy') && (used.get(name) ?? 0) > 0;
      });
      if (at < 0) return await fake(args, options);
      const name = lines[at]?.split(' ').at(-1) ?? '';
      used.set(name, (used.get(name) ?? 0) - 1);
      if (at > 0) await fake(args, { stdin: lines.slice(0, at).join('\n') });
      const stderr = `ipset v7.17: Error in line ${at + 1}: Set cannot be destroyed: it is in use by a kernel component\n`;
      return { code: 1, stdout: '', stderr };
    });
    const sets = names.map((name) => [name, addressSet(name, 4, ['192.0.2.1'])] as const);
    await ipset.restore(setChange(new Map(), new Map(sets)).first);
  });

  it('is tried again while the kernel calls a set in use', async () => {
    used.set('nodewall-a', 2).set('nodewall-c', 1);
    const { inUse, failed } = await collectSets(ipset, destroys, { pause });
    assert.deepEqual([[...inUse.keys()], failed, pauses], [[], null, [50, 100]]);
    assert.deepEqual(await ipset.names(), []);
  });

  it('ends after 1.5 s, and says which sets are left', async () => {
    used.set('nodewall-b', 100);
    const { inUse } = await collectSets(ipset, destroys, { pause });
    assert.deepEqual([[...inUse.keys()], pauses], [['nodewall-b'], [50, 100, 200, 400, 800]]);
    assert.deepEqual(await ipset.names(), ['nodewall-b']);
  });

  it('is not tried again for sets that were in use before', async () => {
    used.set('nodewall-b', 100);
    const { inUse } = await collectSets(ipset, destroys, { stuck: new Set(['nodewall-b']), pause });
    assert.deepEqual([[...inUse.keys()], pauses], [['nodewall-b'], []]);
  });
});
