import assert from 'node:assert/strict';
import { type Config, DEFAULT_CONFIG } from '../../apis/config.ts';
import type { Log } from '../../lib/process/log.ts';
import { compiledRule, stateOf } from '../../test/fake/node-state.ts';
import { usedLinkGroups, withLastLinkGroups } from './state-store.ts';

describe('linkgroups', () => {
  const config: Config = { ...DEFAULT_CONFIG, interfaceGroups: { pods: 8, clusternet: 9, storage: 30 } };
  const peers = [{ kind: 'interfaces', groups: [12, 'storage'] }] as const;
  const state = stateOf([compiledRule('a', { peers }), compiledRule('b')]);
  const warned: object[] = [];
  const log = { warn: (_: string, fields: object) => warned.push(fields) } as unknown as Log;

  it('are those that rules refer to', () => {
    assert.deepEqual(usedLinkGroups(state, config), { storage: 30 });
  });

  it('keep their number when their name is removed from the configuration, with a warning', () => {
    const { interfaceGroups } = withLastLinkGroups(DEFAULT_CONFIG, { storage: 30 }, log);
    assert.deepEqual({ ...interfaceGroups }, { storage: 30, pods: 8, clusternet: 9 });
    assert.deepEqual(warned.splice(0), [{ name: 'storage', group: 30 }]);
  });

  it('follow the configuration', () => {
    const { interfaceGroups } = withLastLinkGroups(config, { storage: 31, pods: 7 }, log);
    assert.deepEqual({ ...interfaceGroups }, config.interfaceGroups);
    assert.deepEqual(warned, []);
  });
});
