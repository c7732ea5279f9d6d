import assert from 'node:assert/strict';
import type { Answer, Flow } from './oracle.ts';
import { oracle } from './oracle.ts';
import type { Row } from './test-cluster.ts';
import { checkRows, cluster, policy, tier } from './test-cluster.ts';

const rules = (...actions: string[]) => ({ ingress: actions.map((action) => ({ action })) });
const early = (...actions: string[]) => policy('early', { tier: 'emergency', ...rules(...actions) });
const late = (...actions: string[]) => policy('late', rules(...actions));
const base = (...actions: string[]) => policy('base', { tier: 'baseline', ...rules(...actions) });
const audit = (...actions: string[]) =>
  policy('audit', { tier: 'emergency', priority: 1, mode: 'Audit', ...rules(...actions) });
const flow: Partial<Flow> = { src: '10.5.0.1', dst: '10.0.0.1', protocol: 'tcp', dstPort: 80 };
const api: Partial<Flow> = { src: '203.0.113.2', protocol: 'tcp', dstPort: 6443 };
const ports = [{ port: 6443 }];
const none = 'Allow default';

const passRows: Row[] = [
  ['Pass leads to the baseline tier', [early('Pass'), base('Drop')], flow, 'Drop rule base#0'],
  ['over the tiers between', [early('Pass'), late('Drop'), base('Allow')], flow, 'Allow rule base#0'],
  ['over its own policy', [early('Pass', 'Drop')], flow, none],
  [
    'over a tier right before',
    [tier('last', 252), policy('p', { tier: 'last', ...rules('Drop') }), early('Pass')],
    flow,
    none,
  ],
  [
    'a tier of its own',
    [tier('first', 1), policy('p', { tier: 'first', ...rules('Pass') }), early('Drop')],
    flow,
    none,
  ],
  ['nothing in baseline: the default', [early('Pass'), late('Drop')], flow, none],
  [
    'nothing that matches in baseline',
    [
      early('Pass'),
      policy('base', { tier: 'baseline', ingress: [{ action: 'Drop', ports: [{ port: 1 }] }] }),
    ],
    flow,
    none,
  ],
  [
    'a Pass that does not match',
    [policy('p', { ingress: [{ action: 'Pass', ports: [{ port: 1 }] }, { action: 'Drop' }] })],
    flow,
    'Drop rule p#1',
  ],
  ['a rule before Pass decides', [early('Reject', 'Pass'), base('Drop')], flow, 'Reject rule early#0'],
  [
    'a second Pass between changes nothing',
    [early('Pass'), late('Pass', 'Drop'), base('Drop')],
    flow,
    'Drop rule base#0',
  ],
  [
    'CamelCase baseline',
    [early('Pass'), policy('b', { tier: 'Baseline', ...rules('Drop') })],
    flow,
    'Drop rule b#0',
  ],
  [
    'Pass of one direction leaves the other alone',
    [early('Pass'), policy('p', { egress: [{ action: 'Drop' }] })],
    { direction: 'egress' },
    'Drop rule p#0',
  ],
  ['failsafe: Pass is never skipped', [early('Pass'), late('Drop')], api, none],
  [
    'failsafe: what baseline has is skipped as ever',
    [early('Pass'), late('Drop'), base('Drop')],
    api,
    'Allow failsafe',
  ],
  ['failsafe: a Pass after a skipped rule', [early('Drop', 'Pass'), late('Drop')], api, 'Allow failsafe'],
  [
    'failsafe: a Pass that names ports',
    [policy('p', { ingress: [{ action: 'Pass', ports }, { action: 'Drop' }] })],
    api,
    none,
  ],
];

const auditRows: Row[] = [
  ['Drop', [audit('Drop')], flow, none],
  ['Reject before an enforced rule', [audit('Reject'), late('Drop')], flow, 'Drop rule late#0'],
  ['Allow lets the next one decide', [audit('Allow'), late('Drop')], flow, 'Drop rule late#0'],
  ['Pass does not leap', [audit('Pass'), late('Reject'), base('Drop')], flow, 'Reject rule late#0'],
  [
    'Enforce said in so many words',
    [policy('p', { mode: 'Enforce', ...rules('Drop') })],
    flow,
    'Drop rule p#0',
  ],
  ['failsafe: a rule of Audit changes no verdict', [audit('Drop')], api, none],
  [
    'failsafe: not one that names ports either',
    [
      policy('audit', { mode: 'Audit', tier: 'emergency', ingress: [{ action: 'Drop', ports }] }),
      late('Drop'),
    ],
    api,
    'Allow failsafe',
  ],
];

const nodePort: Partial<Flow> = { ...flow, traffic: 'NodePort' };
const np = (action: string, rest: object = {}) =>
  policy('np', { traffic: 'NodePort', ingress: [{ action, ...rest }] });
const exempt = 'Allow exempt';
const nodePortRows: Row[] = [
  ['its rules', [np('Drop')], nodePort, 'Drop rule np#0'],
  ['not for Host', [np('Drop')], { ...flow, traffic: 'Host' }, none],
  ['no traffic is Host', [np('Drop')], flow, none],
  ['Host rules are not for it', [late('Drop')], nodePort, none],
  ['nor those that say Host', [policy('p', { traffic: 'Host', ...rules('Drop') })], nodePort, none],
  ['the two do not mix', [early('Drop'), np('Reject'), base('Drop')], nodePort, 'Reject rule np#0'],
  ['ports are those before the NAT', [np('Drop', { ports: [{ port: 80 }] })], nodePort, 'Drop rule np#0'],
  ['peers', [np('Drop', { from: [{ ipBlock: { cidr: '10.6.0.0/16' } }] })], nodePort, none],
  ['Pass goes to NodePort rules of baseline', [np('Pass'), base('Drop')], nodePort, none],
  [
    'Pass goes to NodePort rules of baseline indeed',
    [np('Pass'), policy('b', { tier: 'baseline', traffic: 'NodePort', ...rules('Drop') })],
    nodePort,
    'Drop rule b#0',
  ],
  ['Audit', [policy('np', { traffic: 'NodePort', mode: 'Audit', ...rules('Drop') })], nodePort, none],
  ['from an interface of pods, by name', [np('Drop')], { ...nodePort, interfaceGroup: 'pods' }, exempt],
  ['by number', [np('Drop')], { ...nodePort, interfaceGroup: 8 }, exempt],
  [
    'the configured number',
    [np('Drop')],
    { ...nodePort, interfaceGroup: 20 },
    exempt,
    { interfaceGroups: { pods: 20 } },
  ],
  [
    'no longer the default then',
    [np('Drop')],
    { ...nodePort, interfaceGroup: 8 },
    'Drop rule np#0',
    { interfaceGroups: { pods: 20 } },
  ],
  ['from another interface', [np('Drop')], { ...nodePort, interfaceGroup: 9 }, 'Drop rule np#0'],
  ['from the Node itself', [np('Drop')], { ...nodePort, src: '10.0.0.11', dst: '203.0.113.2' }, exempt],
  ['from loopback', [np('Drop')], { ...nodePort, src: '127.0.0.1', dst: '203.0.113.2' }, exempt],
  [
    'not to be turned off',
    [np('Drop')],
    { ...nodePort, src: '10.0.0.11', dst: '203.0.113.2' },
    exempt,
    { exemptions: { loopback: false, localPods: false } },
  ],
  [
    'nor for pods',
    [np('Drop')],
    { ...nodePort, interfaceGroup: 8 },
    exempt,
    { exemptions: { loopback: false, localPods: false } },
  ],
  ['from another Node', [np('Drop')], { ...nodePort, src: '203.0.113.2' }, 'Drop rule np#0'],
  ['source unknown', [np('Drop')], { dst: '10.0.0.1', traffic: 'NodePort' }, 'Drop rule np#0'],
  ['failsafe is for Host alone', [np('Drop')], { ...api, traffic: 'NodePort' }, 'Drop rule np#0'],
  [
    'the other exemptions',
    [np('Drop')],
    { traffic: 'NodePort', src: 'fd05::1', dst: 'fd00::1', protocol: 'icmpv6', icmpType: 135 },
    exempt,
  ],
];

const loggingRows: Row[] = [
  [
    'enableLogging',
    [policy('p', { ingress: [{ action: 'Drop', enableLogging: true, logLabel: 'x' }] })],
    flow,
    'Drop rule p#0',
  ],
  [
    'failsafe all the same',
    [policy('p', { ingress: [{ action: 'Drop', enableLogging: true }] })],
    api,
    'Allow failsafe',
  ],
];

describe('oracle: evaluation', () => {
  checkRows({ passRows, auditRows, nodePortRows, loggingRows });

  const listed = (objects: object[], given: Partial<Flow>) => {
    const answer = oracle({ objects: [...objects, ...cluster], node: 'n1' })({
      direction: 'ingress',
      ...given,
    });
    const numbered = (list: Answer['skipped'] = []) =>
      list.map(({ policy: name, rule }) => `${name}/${rule}`);
    return { audited: numbered(answer.audited), skipped: numbered(answer.skipped) };
  };
  const watching = (place: string, ...given: object[]) =>
    policy(place, {
      tier: place,
      mode: 'Audit',
      ingress: given.map((rule, index) => ({ name: `${index}`, ...rule })),
    });

  it('lists the Audit rules before the decision, in order, each that matches', () => {
    const objects = [
      watching('baseline', { action: 'Drop' }),
      watching('platform', { action: 'Allow' }, { action: 'Drop', ports: [{ port: 1 }] }, { action: 'Pass' }),
      watching('emergency', { action: 'Reject' }),
      late('Drop'),
    ];
    const audited = ['emergency/0', 'platform/0', 'platform/2'];
    assert.deepEqual(listed(objects, flow), { audited, skipped: [] });
  });

  it('lists no Audit rule that Pass skips', () => {
    const objects = [
      early('Pass'),
      watching('platform', { action: 'Drop' }),
      watching('baseline', { action: 'Drop' }),
    ];
    assert.deepEqual(listed(objects, flow), { audited: ['baseline/0'], skipped: [] });
  });

  it('lists no Audit rule that the failsafe skips, neither as audited nor as skipped', () => {
    const objects = [
      watching(
        'emergency',
        { action: 'Drop' },
        { action: 'Drop', ports },
        { action: 'Allow' },
        { action: 'Pass' },
      ),
      policy('all', { ingress: [{ name: 'x', action: 'Drop' }] }),
    ];
    const audited = ['emergency/1', 'emergency/2', 'emergency/3'];
    assert.deepEqual(listed(objects, api), { audited, skipped: ['all/x'] });
  });

  it('lists nothing for exempt traffic, and no rule that Pass skips as skipped', () => {
    const own = { src: '10.0.0.1', dst: '10.0.0.11' };
    assert.deepEqual(listed([watching('emergency', { action: 'Drop' })], own), { audited: [], skipped: [] });
    assert.deepEqual(listed([early('Pass'), late('Drop')], api), { audited: [], skipped: [] });
  });
});
