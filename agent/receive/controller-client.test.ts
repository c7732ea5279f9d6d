import assert from 'node:assert/strict';
import { NODE_VIEWS_PATH } from '../../apis/stream.ts';
import { type FakeControlPlane, fakeControlPlane } from '../../test/fake/control-plane.ts';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import { type ControllerClient, controllerClient } from './controller-client.ts';
import { destinationOf } from './destinations.ts';

const NODE = 'node-0';
const REPORT = `${NODE_VIEWS_PATH}/${NODE}/status`;

describe('the client of controllers whose Service does not answer', () => {
  let service: FakeControlPlane;
  let replica: FakeControlPlane;
  let client: ControllerClient;
  let refusals: number;

  beforeEach(async () => {
    [service, replica] = await Promise.all([fakeControlPlane(NODE), fakeControlPlane(NODE)]);
    refusals = 0;
    client = follow(service.url);
    await service.stop();
  });
  afterEach(async () => {
    client.close();
    await Promise.all([service.close(), replica.close()]);
  });

  function follow(url: URL): ControllerClient {
    const authorities = { ...service.authorities, refused: () => void refusals++ };
    const address = { url, tokenFile: service.tokenFile, authorities };
    const replicas = () => [destinationOf(replica.url)];
    return controllerClient({ ...address, replicas }, 'test', fakeClock(), () => 0);
  }
  const report = async (): Promise<void> => {
    const { signal } = new AbortController();
    (await client.request({ method: 'PUT', path: REPORT, body: { node: NODE }, signal })).resume();
  };

  it('asks a controller itself', async () => {
    await replica.certify(service.authority);
    await report();
    assert.equal(replica.reports.length, 1);
  });

  it('trusts no controller of another authority, reads the authorities again, and says so', async () => {
    await assert.rejects(report(), ({ message }: Error) => {
      const [first = '', second = ''] = message.split('; ');
      assert.match(first, new RegExp(`^${service.url.host}: .*ECONNREFUSED`));
      assert.match(second, new RegExp(`^${replica.url.host}: its certificate is not signed by an authority`));
      return true;
    });
    assert.equal(refusals, 1);
    assert.equal(replica.reports.length, 0);
  });

  it('trusts no server whose certificate lacks the name in --controller', async () => {
    await replica.certify(service.authority, ['elsewhere.example']);
    await assert.rejects(report(), /its certificate is for another name/);
    assert.equal(replica.reports.length, 0);
  });

  it('trusts the name in --controller wherever a controller is', async () => {
    client.close();
    client = follow(new URL(`https://localhost:${service.url.port}`));
    await replica.certify(service.authority, ['localhost']);
    await report();
    assert.equal(replica.reports.length, 1);
  });
});
