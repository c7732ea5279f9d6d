import assert from 'node:assert/strict';
import { MOST_PLATFORM_ENTRIES, platformOf, platformText, readPlatform } from './platform.ts';

describe('the annotation of what a Node needs to carry pods', () => {
  it('is read as it is written', () => {
    const text = 'udp/8472,tcp/10349-10351,sctp/9,ipip,ipv6,gre,esp,ah,vrrp';
    const { entries, invalid, leftOut } = readPlatform(text);
    assert.deepEqual([platformText(entries), invalid, leftOut], [text, [], 0]);
    const others = entries.filter(({ peers }) => peers !== 'nodes');
    assert.deepEqual(
      others.map(({ protocol, peers, direction }) => [protocol, peers, direction]),
      [[112, ['224.0.0.18/32', 'ff02::12/128'], 'egress']],
    );
  });

  it('has nothing of items that say nothing', () => {
    const wrong = [
      'tcp',
      'tcp/',
      'tcp/0',
      'tcp/65536',
      'tcp/9-8',
      'icmp/1',
      '47',
      'GRE',
      'constructor',
      'udp/1/2',
    ];
    assert.deepEqual(readPlatform(` ${wrong.join(' , ')},, `), { entries: [], invalid: wrong, leftOut: 0 });
  });

  it('is bounded', () => {
    const items = Array.from({ length: 100_000 }, (_, i) => `tcp/${(i % 60_000) + 1}`);
    const { entries, leftOut } = readPlatform(items.join());
    assert.deepEqual([entries.length, leftOut], [MOST_PLATFORM_ENTRIES, MOST_PLATFORM_ENTRIES]);
  });

  it("has neither WireGuard's own peers nor entries of one direction", () => {
    const [entry] = readPlatform('udp/51820').entries;
    assert.ok(entry !== undefined);
    const platform = [entry, { ...entry, peers: ['192.0.2.1'] }, { ...entry, direction: 'egress' } as const];
    assert.equal(platformText(platform), 'udp/51820');
    assert.deepEqual(
      (['ingress', 'egress'] as const).map((direction) => platformOf({ platform }, direction).length),
      [2, 3],
    );
  });
});
