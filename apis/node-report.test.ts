import assert from 'node:assert/strict';
import { type NodeReport, parseReport } from './node-report.ts';
import { InvalidError } from './schema/shape.ts';

export const REPORT: NodeReport = {
  node: 'cp-1',
  revision: 'e.7',
  enforced: null,
  enabled: true,
  failing: [
    { apiGroup: 'nodewall.io', policy: 'p', generation: 3, rule: null, reason: 'no group of that name' },
  ],
  policies: 2,
  hostAddresses: ['192.0.2.1', 'fd00::1'],
  version: '0.1.0',
  dataplane: 'nftables',
  time: '2026-01-02T03:04:05.678Z',
};

function refused(value: unknown): Error {
  try {
    parseReport(value, 'cp-1');
  } catch (error) {
    if (error instanceof InvalidError) return error;
  }
  return assert.fail(JSON.stringify(value));
}

describe('parseReport', () => {
  it('accepts a report and drops unknown fields', () => {
    const [failing] = REPORT.failing;
    const newer = { ...REPORT, failing: [{ ...failing, more: 1 }], more: 1 };
    assert.deepEqual(parseReport(newer, 'cp-1'), REPORT);
  });

  it("keeps the agent's features, also those of a newer one", () => {
    const newer = { ...REPORT, features: ['established', 'later'] };
    assert.deepEqual(parseReport(newer, 'cp-1'), newer);
    for (const features of ['established', [1], ['a b'], Array(65).fill('a')])
      refused({ ...REPORT, features });
  });

  it('keeps what the node says of egress gateways', () => {
    const key = `${'A'.repeat(42)}E=`;
    const egress = { tunnel: '192.0.2.1', key, problems: ['ip rule add: \u001b[2Jdenied'] };
    const parsed = parseReport({ ...REPORT, egress: { ...egress, later: 1 } }, 'cp-1');
    assert.deepEqual(parsed.egress, { tunnel: '192.0.2.1', key, problems: ['ip rule add:  [2Jdenied'] });
    const refusing = { ...REPORT, egress: { refused: 'no device' } };
    assert.deepEqual(parseReport(refusing, 'cp-1'), refusing);
    for (const wrong of [
      null,
      [],
      { tunnel: 'here' },
      { refused: 7 },
      { key: 'one' },
      { key: `${'A'.repeat(42)}F=` },
      { problems: 'one' },
      { problems: Array(6).fill('x') },
      { problems: ['x'.repeat(3000)] },
    ])
      refused({ ...REPORT, egress: wrong });
  });

  it('keeps what the node needs to carry pods, within its bounds', () => {
    const row = { entry: 'udp/8472', reason: 'vxlan flannel.1' };
    const platform = [row, { ...row, addresses: 3 }];
    assert.deepEqual(parseReport({ ...REPORT, platform }, 'cp-1').platform, platform);
    const [shown] =
      parseReport({ ...REPORT, platform: [{ ...row, reason: 'a\u001b[2Jb' }] }, 'cp-1').platform ?? [];
    assert.equal(shown?.reason, 'a [2Jb');
    for (const wrong of [
      'one',
      [{ entry: 'udp/8472' }],
      [{ ...row, entry: 'two words' }],
      [{ ...row, addresses: -1 }],
      Array(257).fill(row),
    ])
      refused({ ...REPORT, platform: wrong });
  });

  it('keeps what the node counts, within its bounds', () => {
    const counts = { drifts: 1, rollbacks: 0, recordsLost: 2, denied: 3, failsafeRules: 4 };
    const rules = [['rule-1', 5, 300]] as const;
    const parsed = parseReport({ ...REPORT, totals: { ...counts, rules, later: 1 } }, 'cp-1');
    assert.deepEqual(parsed.totals, { ...counts, rules });
    const cut = { ...REPORT, totals: { ...counts, rules, isCut: true } };
    assert.deepEqual(parseReport(cut, 'cp-1'), cut);
    for (const wrong of [
      null,
      {},
      { ...counts, drifts: -1 },
      { ...counts, denied: 1.5 },
      { ...counts, rules: 'all' },
      { ...counts, rules: [['rule-1', 5]] },
      { ...counts, rules: [['a rule', 5, 300]] },
      { ...counts, rules: [['r'.repeat(65), 5, 300]] },
      { ...counts, rules: Array(101).fill(rules[0]) },
    ])
      refused({ ...REPORT, totals: wrong });
  });

  it('removes control characters that would act on a terminal', () => {
    const words = {
      rule: 'r\u009b2J',
      reason: 'no\r\n\u001b]0;title\u0007 memory\u202e\u2028\ud800, größer',
    };
    const said = { off: 'why\u001b[2J', viewError: 'x\nof the other node' };
    const parsed = parseReport({ ...REPORT, ...said, failing: [{ ...REPORT.failing[0], ...words }] }, 'cp-1');
    const [{ rule, reason } = assert.fail()] = parsed.failing;
    assert.deepEqual([rule, reason], ['r 2J', 'no ]0;title  memory , größer']);
    assert.deepEqual([parsed.off, parsed.viewError], ['why [2J', 'x of the other node']);
  });

  it('names every invalid field', () => {
    const wrong: [string, unknown][] = [
      ['node', 'cp-2'],
      ['revision', 7],
      ['revision', 'x'.repeat(513)],
      ['revision', 'e.7\n'],
      ['version', '0.1.0 \u001b[2J'],
      ['enforced', undefined],
      ['enabled', 'yes'],
      ['off', true],
      ['off', null],
      ['off', 'x'.repeat(3000)],
      ['viewError', 7],
      ['failing', {}],
      ['failing', Array(101).fill(REPORT.failing[0])],
      ['failing', [{ ...REPORT.failing[0], apiGroup: 'others.io' }]],
      ['failing', [{ ...REPORT.failing[0], rule: undefined }]],
      ['failing', [{ ...REPORT.failing[0], reason: 'x'.repeat(3000) }]],
      ['failing', [null]],
      ['policies', -1],
      ['policies', 1.5],
      ['hostAddresses', ['192.0.2.1/24']],
      ['hostAddresses', '192.0.2.1'],
      ['hostAddresses', Array(10_001).fill('192.0.2.1')],
      ['version', null],
      ['dataplane', 'auto'],
      ['time', 'yesterday'],
    ];
    for (const [field, value] of wrong) {
      const { message } = refused({ ...REPORT, [field]: value });
      assert.ok(
        message.split('; ').every((problem) => problem.startsWith(field)),
        `${String(value)}: ${message}`,
      );
    }
    for (const nothing of [null, [], 'report']) refused(nothing);
  });
});
