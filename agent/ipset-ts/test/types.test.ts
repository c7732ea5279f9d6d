/**
 * Calls that the types accept or refuse. tsc checks the lines below `@ts-expect-error`: each must
 * be an error. Nothing is run but one test, so that the file counts.
 */

import assert from 'node:assert/strict';
import {
  Ipset,
  type RestoreOperation,
  type SavedSet,
  type SetDefinition,
  type SetEntry,
  type TestKey,
} from '../lib/index.ts';
import { createFakeExec } from './fake/exec.ts';

const nets = { name: 'nets', type: 'hash:net' } as const;
const services = { name: 'services', type: 'hash:ip,port' } as const;
const ports = { name: 'ports', type: 'bitmap:port', range: '1-9' } as const;

function sets(): SetDefinition[] {
  return [
    {
      ...nets,
      family: 'inet6',
      hashsize: 64,
      maxelem: 5,
      timeout: 0,
      counters: true,
      comment: true,
      skbinfo: true,
      forceadd: true,
    },
    { name: 'a', type: 'hash:ip', netmask: 24 },
    { name: 'a', type: 'hash:ip', bitmask: '255.0.0.255' },
    { name: 'a', type: 'list:set', size: 4 },
    ports,
    // @ts-expect-error networks are not masked
    { name: 'a', type: 'hash:net', netmask: 24 },
    // @ts-expect-error a bitmap has a range, not a limit
    { name: 'a', type: 'bitmap:port', range: '1-9', maxelem: 5 },
    // @ts-expect-error a bitmap needs its range
    { name: 'a', type: 'bitmap:ip' },
    // @ts-expect-error one mask or the other
    { name: 'a', type: 'hash:ip', netmask: 24, bitmask: '255.0.0.255' },
    // @ts-expect-error MAC addresses have no family
    { name: 'a', type: 'hash:mac', family: 'inet' },
    // @ts-expect-error bitmaps are IPv4 alone
    { name: 'a', type: 'bitmap:ip', range: '10.0.0.0/8', family: 'inet' },
    // @ts-expect-error a list is no hash
    { name: 'a', type: 'list:set', hashsize: 64 },
    // @ts-expect-error marks only go with hash:ip,mark
    { name: 'a', type: 'hash:ip', markmask: 1 },
    // @ts-expect-error no such type
    { name: 'a', type: 'hash:port' },
    // @ts-expect-error no such family
    { name: 'a', type: 'hash:ip', family: 'ipv4' },
  ];
}

async function entries(ipset: Ipset): Promise<void> {
  await ipset.add(nets, { net: '10.0.0.0/8', nomatch: true });
  // Whether the set was created with timeouts is known at run time only.
  await ipset.add(nets, { net: '10.0.0.0/8', timeout: 5 });
  await ipset.add(ports, { port: '1-3' });
  // @ts-expect-error a network's field is net
  await ipset.add(nets, { ip: '10.0.0.0/8' });
  // @ts-expect-error both parts are needed
  await ipset.add(services, { ip: '192.0.2.1' });
  // @ts-expect-error a port of a hash has a protocol
  await ipset.add(services, { ip: '192.0.2.1', port: '80' });
  // @ts-expect-error a bitmap's port has none
  await ipset.add(ports, { port: 'tcp:80' });
  // @ts-expect-error exceptions are of networks
  await ipset.add(services, { ip: '192.0.2.1', port: 80, nomatch: true });
  // @ts-expect-error wildcards are of interfaces
  await ipset.add(nets, { net: '10.0.0.0/8', wildcard: true });
  // @ts-expect-error counters are 64 bits
  await ipset.add(nets, { net: '10.0.0.0/8', packets: 5 });
  // @ts-expect-error an entry is deleted by its key
  await ipset.del(nets, { net: '10.0.0.0/8', timeout: 5 });
  // @ts-expect-error and tested by it
  await ipset.test(nets, { net: '10.0.0.0/8', comment: 'x' });
  await ipset.test(nets, { net: '10.0.0.0/8', nomatch: true });
  // @ts-expect-error before or after, not both
  await ipset.add({ name: 'l', type: 'list:set' }, { set: 'a', before: 'b', after: 'c' });
}

function operations(set: SavedSet): RestoreOperation[] {
  // The type tells what the entries are.
  if (set.type === 'hash:ip,port') set.entries.map(({ port }) => port);
  // @ts-expect-error not every set has ports
  set.entries.map(({ port }) => port);
  const key: TestKey<'hash:net'> = { net: '10.0.0.0/8' };
  const entry: SetEntry<'hash:net'> = key;
  return [
    { op: 'add', set: nets, entry },
    { op: 'destroy', name: 'a' },
    // @ts-expect-error the entry of another type
    { op: 'add', set: services, entry },
    // @ts-expect-error swap has two names
    { op: 'swap', name: 'a' },
    // @ts-expect-error a test is no operation of a restore
    { op: 'test', set: nets, entry },
  ];
}

describe('the types', () => {
  it('match the runtime values', async () => {
    assert.equal(sets().length + operations({ ...nets, entries: [] }).length, 20);
    assert.equal(entries.length, 1);
    await new Ipset(createFakeExec()).create(nets);
  });
});
