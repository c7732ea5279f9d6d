import assert from 'node:assert/strict';
import { parseMarkdown, replaceFences } from '../docs/markdown.ts';
import { parseCases } from './case.ts';
import { formatAnswer, parseEgressFlowLine, parseFlowLine } from './flow-line.ts';

const FENCE = '```';

describe('cases: Markdown', () => {
  const text = [
    '# A',
    `${FENCE}yaml`,
    'a: 1',
    FENCE,
    '## B',
    'words',
    `${FENCE}nft base`,
    '',
    FENCE,
    '',
  ].join('\n');

  it('is headings and fences with their lines', () => {
    const [first, second] = parseMarkdown('f.md', text);
    assert.deepEqual(first, {
      heading: 'A',
      level: 1,
      line: 1,
      fences: [{ info: 'yaml', line: 2, text: 'a: 1\n' }],
    });
    assert.deepEqual(second?.fences, [{ info: 'nft base', line: 7, text: '\n' }]);
  });

  it('is rejected if a fence has no end, or no heading above it', () => {
    assert.throws(() => parseMarkdown('f.md', `# A\n${FENCE}yaml\n`), /f\.md:2: this fence has no end/);
    assert.throws(() => parseMarkdown('f.md', `${FENCE}yaml\n${FENCE}\n`), /f\.md:1: a fence before/);
    assert.throws(() => parseMarkdown('f.md', '# A\n~~~yaml\n~~~\n'), /f\.md:2: fences are three backticks/);
  });

  it('keeps everything except the replaced fences', () => {
    const replaced = replaceFences(text, new Map([[7, 'x\ny\n']]));
    assert.equal(replaced, text.replace(`${FENCE}nft base\n\n`, `${FENCE}nft base\nx\ny\n`));
    assert.equal(replaceFences(text, new Map([[7, '']])), text.replace(`nft base\n\n`, 'nft base\n'));
  });
});

describe('cases: claims', () => {
  const fence = (info: string, text = '') => `${FENCE}${info}\n${text}${FENCE}\n`;

  it('inherit manifests and configuration from the headings above, not from sibling headings', () => {
    const text = [
      `# A\n${fence('yaml', 'a\n')}${fence('yaml config', 'outer\n')}`,
      `## B\n${fence('yaml', 'b\n')}${fence('yaml config', 'inner\n')}${fence('nft rules node=n')}`,
      `## C\n${fence('flows')}`,
    ].join('');
    const [first, second] = parseCases('f.md', text);
    assert.deepEqual(first?.headings, ['A', 'B']);
    assert.deepEqual(
      first?.manifests.map((manifest) => manifest.fence.text),
      ['a\n', 'b\n'],
    );
    assert.equal(first?.config?.text, 'inner\n');
    assert.deepEqual(first?.expectations[0]?.parts, ['rules']);
    assert.equal(first?.expectations[0]?.node, 'n');
    assert.equal(second?.manifests.length, 1);
    assert.equal(second?.config?.text, 'outer\n');
  });

  it('are rejected with an unknown fence or word, or with nothing to check', () => {
    assert.throws(
      () => parseCases('f.md', `# A\n${fence('json')}`),
      /f\.md:2: unknown fence "json"; known: yaml/,
    );
    assert.throws(() => parseCases('f.md', `# A\n${fence('')}`), /f\.md:2: unknown fence/);
    assert.throws(() => parseCases('f.md', `# A\n${fence('flows base')}`), /"base" says nothing to/);
    assert.throws(() => parseCases('f.md', `# A\n${fence('yaml')}`), /nothing in this file is checked/);
  });

  it('have the steps that stand above them in their section', () => {
    const text = [
      `# A\n${fence('yaml')}${fence('yaml changed', '1\n')}${fence('yaml deleted', '2\n')}${fence('change')}`,
      `${fence('stream')}${fence('foreign', '3\n')}${fence('change')}## B\n${fence('stream anew')}`,
    ].join('');
    const [first, second] = parseCases('f.md', text);
    const steps = [first, second].map((one) =>
      one?.expectations.map((each) => each.steps.map((step) => step.map((change) => change.text))),
    );
    const one = [['1\n', '2\n']];
    assert.deepEqual(steps, [[one, one, [...one, ['3\n']]], [[]]]);
    assert.throws(
      () => parseCases('f.md', `# A\n${fence('state')}${fence('foreign')}`),
      /f\.md:4: nothing below/,
    );
    assert.throws(() => parseCases('f.md', `# A\n${fence('change')}`), /f\.md:2: nothing above/);
  });

  it('can include a file of the repository', () => {
    const [one] = parseCases('f.md', `# A\n${fence('yaml deploy/a.yaml')}${fence('objects')}`);
    assert.equal(one?.manifests[0]?.shows, 'deploy/a.yaml');
  });
});

describe('cases: flow lines', () => {
  const flows: readonly [string, object][] = [
    [
      'ingress tcp 10.0.0.7 > 192.0.2.1:6443',
      {
        direction: 'ingress',
        src: '10.0.0.7',
        dst: '192.0.2.1',
        protocol: 'tcp',
        srcPort: 40000,
        dstPort: 6443,
      },
    ],
    [
      'egress udp [2001:db8::1]:68 > [ff02::2]:67 group pods',
      {
        direction: 'egress',
        src: '2001:db8::1',
        dst: 'ff02::2',
        protocol: 'udp',
        srcPort: 68,
        dstPort: 67,
        interfaceGroup: 'pods',
      },
    ],
    [
      'ingress icmp type 3 code 4 any > 192.0.2.1',
      { direction: 'ingress', dst: '192.0.2.1', protocol: 'icmp', icmpType: 3, icmpCode: 4 },
    ],
    [
      'ingress igmp type 22 10.0.0.7 > 224.0.0.22',
      { direction: 'ingress', src: '10.0.0.7', dst: '224.0.0.22', protocol: 'igmp', igmpType: 22 },
    ],
    ['ingress 47 any > any group 8', { direction: 'ingress', protocol: 47, interfaceGroup: 8 }],
    ['ingress any any > any', { direction: 'ingress' }],
  ];
  for (const [words, flow] of flows) {
    it(words, () => {
      const line = parseFlowLine(`${words}   => Drop by a/b`);
      assert.deepEqual(line, { flow, words: `${words}   => `, expected: 'Drop by a/b' });
    });
  }

  it('of egress gateways name a pod or a source', () => {
    const flows = [
      ['shop/web > 192.0.2.1', { pod: 'shop/web', dst: '192.0.2.1' }],
      ['[fd01::7] > [2001:db8::1]', { src: 'fd01::7', dst: '2001:db8::1' }],
      ['10.1.0.7 > 192.0.2.1', { src: '10.1.0.7', dst: '192.0.2.1' }],
    ] as const;
    for (const [words, flow] of flows) {
      const line = parseEgressFlowLine(`${words} => Direct, inside`);
      assert.deepEqual(line, { flow: { traffic: 'Egress', ...flow }, words: `${words} =>` });
    }
    assert.throws(() => parseEgressFlowLine('web > 192.0.2.1'), /not a flow/);
  });

  it('fail if they differ', () => {
    for (const words of [
      'ingress tcp 10.0.0.7',
      'ingress tcp 10.0.0.7 -> 1.1.1.1:1',
      'tcp 10.0.0.7 > 1.1.1.1',
    ]) {
      assert.throws(() => parseFlowLine(words), /not a flow/);
    }
    assert.throws(() => parseFlowLine('ingress tcp 10.0.0.7 > 2001:db8::1'), /not a flow|not valid/);
    assert.throws(() => parseFlowLine('sideways tcp 10.0.0.7 > 1.1.1.1'), /direction/);
  });

  it('name every reason', () => {
    const rule = { policy: 'p', rule: 'r', ruleIndex: 0, tier: 'application' } as const;
    const none = { policy: null, rule: null, ruleIndex: null, tier: null } as const;
    const skipped = [{ policy: 'p', rule: 's' }];
    const words = [
      formatAnswer({ ...rule, verdict: 'Drop', reason: 'rule', skipped: [] }),
      formatAnswer({ ...none, verdict: 'Allow', reason: 'default', skipped: [] }),
      formatAnswer({ ...none, verdict: 'Allow', reason: 'exempt', exemption: 'loopback', skipped: [] }),
      formatAnswer({ ...none, verdict: 'Allow', reason: 'failsafe', skipped }),
      formatAnswer({ ...rule, verdict: 'Drop', reason: 'rule', skipped }),
    ];
    assert.deepEqual(words, [
      'Drop by p/r',
      'Allow by default',
      'Allow, exempt: loopback',
      'Allow by default, failsafe skipped p/s',
      'Drop by p/r, failsafe skipped p/s to no effect',
    ]);
  });
});
