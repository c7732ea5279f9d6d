import assert from 'node:assert/strict';
import { UnseenProxy } from './unseen-proxy.ts';

const links = (...names: string[]) => names.map((name) => ({ name }));

describe("whether NodePort policies match beside the node's Service proxy", () => {
  let [clock, isThere]: [number, boolean | null] = [0, true];
  let asked = 0;
  let changes: (string | null)[] = [];
  let proxy: UnseenProxy;
  beforeEach(() => {
    [clock, isThere, asked, changes] = [0, true, 0, []];
    const hasKubeProxy = async () => {
      asked++;
      return isThere;
    };
    proxy = new UnseenProxy({ hasKubeProxy, now: () => clock, changed: (why) => changes.push(why) });
  });

  it('follows from the devices of IPVS and of eBPF', () => {
    proxy.update(links('lo', 'eth0'));
    assert.equal(proxy.why, null);
    proxy.update(links('lo', 'kube-ipvs0'));
    assert.match(String(proxy.why), /^Services are kube-proxy in mode ipvs \(device kube-ipvs0\): /);
    proxy.update(links('bpfin.cali', 'lo'));
    assert.match(String(proxy.why), /Calico's eBPF/);
    proxy.update(links('lo'));
    assert.equal(proxy.why, null);
    assert.deepEqual([changes.length, asked], [3, 0]);
  });

  it('is asked of the rules in force beside Cilium, every ten minutes', async () => {
    const at = async (minutes: number, ...names: string[]): Promise<string | null> => {
      clock = minutes * 60_000;
      proxy.update(links('cilium_host', ...names));
      await proxy.settled();
      return proxy.why;
    };
    assert.equal(await at(0), null, 'kube-proxy is there');
    isThere = false;
    assert.equal(await at(9), null);
    assert.match(String(await at(10)), /^Services are Cilium/);
    isThere = null;
    assert.equal(await at(20), null, 'it is not known');
    assert.equal(asked, 3);
    assert.match(String(await at(21, 'kube-ipvs0')), /mode ipvs/);
    isThere = false;
    assert.match(String(await at(22)), /Cilium/, 'asked at once');
  });

  it('forgets an answer that comes after the device has gone', async () => {
    isThere = false;
    proxy.update(links('cilium_host'));
    proxy.update(links('eth0'));
    await proxy.settled();
    assert.deepEqual([proxy.why, changes], [null, []]);
  });
});
