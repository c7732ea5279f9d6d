import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import { NameServers } from './name-servers.ts';

function nameServers(
  files: Record<string, string>,
  { servers = [], learnFrom = [] }: Record<string, string[]> = {},
) {
  const clock = fakeClock();
  const changes: (readonly string[])[] = [];
  const note = (): void => {};
  const one = new NameServers({
    config: { servers, learnFrom },
    clock,
    log: { info: note, warn: note, error: note },
    changed: () => changes.push(one.cidrs),
    async readText(file) {
      const text = files[file];
      if (text === undefined) throw new Error('ENOENT');
      return text;
    },
  });
  return { one, clock, changes };
}
const OWN = '/etc/resolv.conf';
const HOST = '/host/etc/resolv.conf';

describe('NameServers', () => {
  it('believes the servers of the configuration, of the agent, and of the node', async () => {
    const { one } = nameServers(
      {
        [OWN]: 'search a.test\nnameserver 10.96.0.10\noptions ndots:5\n',
        [HOST]: '# nameserver 192.0.2.9\n nameserver\t192.0.2.1 \nnameserver fe80::1%eth0\nnameserver what\n',
      },
      { servers: ['192.0.2.2:5353', '[2001:db8::53]:53', '2001:db8::54'] },
    );
    assert.equal(await one.refresh(), true);
    assert.deepEqual(one.cidrs, [
      '10.96.0.10/32',
      '192.0.2.1/32',
      '192.0.2.2/32',
      '2001:db8::53/128',
      '2001:db8::54/128',
      'fe80::1/128',
    ]);
    assert.equal(await one.refresh(), false);
  });

  it('believes those of names.learnFrom alone if there are any', async () => {
    const { one } = nameServers({ [OWN]: 'nameserver 192.0.2.1' }, { learnFrom: ['198.51.100.0/24'] });
    assert.equal(await one.refresh(), false);
    assert.deepEqual(one.cidrs, ['198.51.100.0/24']);
  });

  it('follows the files, and keeps the last servers while they have none', async () => {
    const files: Record<string, string> = { [OWN]: 'nameserver 192.0.2.1' };
    const { one, clock, changes } = nameServers(files);
    await one.refresh();
    one.watch(true);
    one.watch(true);
    files[OWN] = '';
    clock.pass(30_000);
    await turn();
    assert.deepEqual([one.cidrs, changes], [['192.0.2.1/32'], []]);
    files[OWN] = 'nameserver 192.0.2.2';
    clock.pass(30_000);
    await turn();
    assert.deepEqual(changes, [['192.0.2.2/32']]);
    one.watch(false);
    assert.deepEqual(clock.waiting(), []);
  });
});
