import assert from 'node:assert/strict';
import { IpsetError } from 'ipset-ts';
import type { NodeState } from '../../apis/compiled.ts';
import type { Log } from '../../lib/process/log.ts';
import type { Enforced } from '../apply/enforcer.ts';
import { envelopeOf } from '../apply/envelope.ts';
import { IptablesError } from '../apply/iptables/tools.ts';
import { FamilyError } from '../apply/reconciler-interface.ts';
import { AgentLog } from './agent-log.ts';

const NO_IPV6 = new IptablesError('UNKNOWN', 'ip6tables-save: Address family not supported');

const STATE = { rules: [], addressSets: new Map() } as unknown as NodeState;
const UNCHANGED: Enforced = {
  envelope: envelopeOf(STATE),
  plain: STATE,
  resolved: STATE,
  failed: new Map(),
  change: { isEmpty: true, changesStructure: false, text: () => '' },
  leftBehind: null,
  milliseconds: 0,
  enforcedAfter: 0,
  kernelMicroseconds: 0,
};

describe('the log of an apply that fails', () => {
  it('explains errors of iptables and ipset by their message alone', () => {
    for (const error of [NO_IPV6, new IpsetError('UNKNOWN', 'ipset: no')]) {
      const { reports, lines } = setUp();
      reports.failed(error, 1_000);
      const [[level, message, fields] = []] = lines;
      assert.equal(level, 'error');
      assert.equal(message, 'cannot apply the rules; the previous rules stay in force, retrying in 1 s');
      assert.deepEqual(fields, { node: 'n1', stage: 'apply', error: error.message });
    }
  });

  it('has the stack of any other error', () => {
    const { reports, lines } = setUp();
    reports.failed(new TypeError('x is undefined'), 1_000);
    assert.match(JSON.stringify(lines[0]?.[2]), /"internal error: x is undefined","stack":/);
  });

  it('names the family whose rules are in force, once for as long as the failure is the same', () => {
    const { reports, lines } = setUp();
    for (const error of [NO_IPV6, NO_IPV6, new Error('another')])
      reports.failed(new FamilyError(6, error), 2_000);
    assert.deepEqual(
      lines.map(([level]) => level),
      ['error', 'debug', 'error'],
    );
    const [[, message, fields] = []] = lines;
    assert.equal(message, 'cannot apply the rules of IPv6; those of IPv4 are in force, retrying in 2 s');
    assert.deepEqual(fields, { node: 'n1', stage: 'apply', error: NO_IPV6.message });
  });

  it('says that the rules are in force after an error, also where nothing had to be changed', () => {
    for (const failedFamily of [null, new FamilyError(6, NO_IPV6)]) {
      const { reports, lines } = setUp();
      reports.enforced(UNCHANGED);
      for (const _ of [1, 2]) {
        if (failedFamily !== null) reports.enforced({ ...UNCHANGED, failedFamily });
        reports.failed(failedFamily ?? NO_IPV6, 1_000);
      }
      reports.enforced(UNCHANGED);
      reports.enforced(UNCHANGED);
      const levels = lines.filter(([, message]) => !message.startsWith('cannot')).map(([level]) => level);
      const between = failedFamily === null ? [] : ['debug', 'debug'];
      assert.deepEqual(levels, ['info', ...between, 'info', 'debug']);
    }
  });
});

function setUp() {
  const lines: [string, string, unknown][] = [];
  const say =
    (level: string) =>
    (message: string, fields: unknown): void =>
      void lines.push([level, message, fields]);
  const log = {
    error: say('error'),
    isDebugEnabled: () => false,
    log: (level: string, message: string, fields: unknown) => say(level)(message, fields),
  };
  return { reports: new AgentLog('n1', log as unknown as Log), lines };
}
