import assert from 'node:assert/strict';
import { CniFormatError, readCachedResult, readPluginCall } from './attachment.ts';

const ARGS = [
  ['IgnoreUnknown', '1'],
  ['K8S_POD_NAMESPACE', 'shop'],
  ['K8S_POD_NAME', 'pay-1'],
  ['K8S_POD_INFRA_CONTAINER_ID', 'c1'],
  ['K8S_POD_UID', 'u1'],
];
const RESULT = {
  cniVersion: '1.0.0',
  interfaces: [
    { name: 'cali1', mac: 'ee:ee:ee:ee:ee:ee' },
    { name: 'eth0', sandbox: '/var/run/netns/x' },
  ],
  ips: [
    { address: '10.244.1.7/32', gateway: '10.244.1.1', interface: 1 },
    { address: 'FD00:0::7/128', interface: 1 },
    { address: '10.244.1.1/24', interface: 0 },
    { address: '169.254.1.1/32' },
  ],
};
const FILE = {
  kind: 'cniCacheV1',
  containerId: 'c1',
  config: 'e30=',
  ifName: 'eth0',
  networkName: 'k8s-pod-network',
  netns: '/var/run/netns/x',
  cniArgs: ARGS,
  capabilityArgs: {},
  result: RESULT,
};
const POD = {
  pod: 'shop/pay-1/u1',
  network: 'k8s-pod-network',
  container: 'c1',
  interface: 'eth0',
  addresses: ['10.244.1.7', 'fd00::7'],
};

function read(changes: object): unknown {
  return readCachedResult(JSON.stringify({ ...FILE, ...changes }));
}

describe('what CNI says of a pod', () => {
  it('is in a file of libcni: the addresses of interfaces in the pod', () => {
    assert.deepEqual(read({}), POD);
    assert.deepEqual(read({ result: { ips: [{ version: '4', address: '10.0.0.1/24' }] } }), {
      ...POD,
      addresses: ['10.0.0.1'],
    });
    assert.deepEqual(read({ result: undefined }), { ...POD, addresses: [] });
  });

  it('is in the call of a plugin', () => {
    const config = JSON.stringify({ name: 'k8s-pod-network', prevResult: RESULT });
    const args = ARGS.map((pair) => pair.join('=')).join(';');
    assert.deepEqual(readPluginCall({ args, container: 'c1', interface: 'eth0', config }), POD);
    assert.equal(readPluginCall({ args: '', container: 'c1', interface: 'eth0', config }), null);
  });

  it('is nothing where it is not of a pod', () => {
    assert.equal(read({ cniArgs: null }), null);
    assert.equal(read({ ifName: 'lo' }), null);
  });

  it('is refused in any other form', () => {
    const wrong: [string, RegExp][] = [
      ['', /not valid JSON/],
      ['[]', /must be an object/],
      ['{}', /kind/],
    ];
    for (const [text, message] of wrong) assert.throws(() => readCachedResult(text), message);
    const changes: [object, RegExp][] = [
      [{ kind: 'cniCacheV2' }, /kind/],
      [{ cniArgs: 'x' }, /cniArgs/],
      [{ cniArgs: [['a']] }, /pairs/],
      [{ containerId: 7 }, /containerId/],
      [{ ifName: 'x'.repeat(300) }, /ifName/],
      [{ result: [] }, /result/],
      [{ result: { ips: [{ address: '10.0.0.1/24', interface: 3 }] } }, /no such interface/],
      [{ result: { ips: [{ address: '10.0.0.300/24' }] } }, /ips\[0\]/],
      [{ result: { ips: Array(65).fill({ address: '10.0.0.1/24' }) } }, /more than 64/],
      [{ cniArgs: [...ARGS, ['K8S_POD_NAME', 'x'.repeat(300)]] }, /too long/],
    ];
    for (const [change, message] of changes)
      assert.throws(
        () => read(change),
        (error: unknown) => error instanceof CniFormatError && message.test(error.message),
        JSON.stringify(change).slice(0, 80),
      );
  });
});
