import assert from 'node:assert/strict';
import { DEFAULT_CONFIG } from '../../../apis/config.ts';
import { ingress, nodeState } from '../../../test/fake/node-state.ts';
import { tcp, udp } from '../../../test/kernel/manifests.ts';
import { render } from '../../render/render.ts';
import { nftablesText, nftBootFiles } from './text.ts';

/** The rules' own lines, without comments. */
function linesOf(text: string, ...rules: readonly string[]): string[] {
  const found = text.matchAll(/^\t\t(.*) comment "p\/(\w+)"$/gm);
  return [...found].flatMap(([, line = '', rule = '']) => (rules.includes(rule) ? [line] : []));
}

describe("the nftables dataplane's files for a boot", () => {
  const state = nodeState(
    ingress(
      'p',
      { name: 'ranges', action: 'Drop', ports: [tcp(30, 40), tcp(80), udp(53)] },
      {
        name: 'sources',
        action: 'Reject',
        ports: [tcp(22), { protocol: 'SCTP', port: 7000, endPort: 7010, sourcePort: 9 }],
      },
      { name: 'single', action: 'Drop', ports: [tcp(5), udp(6)] },
    ),
  );
  const { 'rules.nft': text = '' } = nftBootFiles(render(state, DEFAULT_CONFIG), state, DEFAULT_CONFIG);

  it('have a rule for each protocol where ports of several have ranges', () => {
    assert.deepEqual(linesOf(text, 'ranges'), [
      'tcp dport { 30-40, 80 } counter drop',
      'udp dport 53 counter drop',
    ]);
    assert.deepEqual(linesOf(text, 'sources'), [
      'sctp sport 9 sctp dport 7000-7010 counter goto refuse',
      'tcp sport 0-65535 tcp dport 22 counter goto refuse',
    ]);
    const single = linesOf(text, 'single');
    assert.deepEqual(single, linesOf(nftablesText.ruleset(state, DEFAULT_CONFIG), 'single'));
    assert.match(single.join(), /^meta l4proto \. th dport/);
  });

  it('reject in the form that nft before 1.0.1 knows', () => {
    assert.match(text, /^\t\treject with icmpx type admin-prohibited$/m);
    assert.doesNotMatch(text, /icmpx admin/);
  });
});
