import assert from 'node:assert/strict';
import { type FakeClock, fakeClock } from '../../test/fake/fake-clock.ts';
import { type Destination, Destinations, destinationOf, toText } from './destinations.ts';

const SERVICE = { host: 'nodewall-controller.nodewall-system.svc', port: 443 };
const [A, B, C] = ['10.1.0.1', '10.1.0.2', 'fd00::3'].map((host) => ({ host, port: 8443 })) as [
  Destination,
  Destination,
  Destination,
];

describe('destinations of a connection to a controller', () => {
  let clock: FakeClock;
  let known: readonly Destination[];
  let drawn: number[];
  let destinations: Destinations;

  beforeEach(() => {
    clock = fakeClock();
    known = [A, B, C];
    drawn = [];
    const random = () => drawn.shift() ?? 0;
    destinations = new Destinations({ service: SERVICE, replicas: () => known, clock, random });
  });

  it('are the Service, then the controllers in random order', () => {
    drawn = [0, 0.9, 0.1, 0.5];
    assert.deepEqual(destinations.inOrder(), [SERVICE, B, C, A]);
    drawn = [0, 0.1, 0.5, 0.9];
    assert.deepEqual(destinations.inOrder(), [SERVICE, A, B, C]);
  });

  it('are the Service alone while no controller is known', () => {
    known = [];
    assert.deepEqual(destinations.inOrder(), [SERVICE]);
  });

  it('have each address once', () => {
    known = [SERVICE, A, A];
    assert.deepEqual(destinations.inOrder(), [SERVICE, A]);
  });

  it('have those last that did not answer within the last minute, the latest failure last', () => {
    destinations.failed(SERVICE);
    clock.pass(1);
    destinations.failed(A);
    drawn = [0, 0.1, 0.2, 0.3];
    assert.deepEqual(destinations.inOrder(), [B, C, SERVICE, A]);
    clock.pass(59_999);
    drawn = [0, 0.1, 0.2, 0.3];
    assert.deepEqual(destinations.inOrder(), [SERVICE, B, C, A]);
    clock.pass(1);
    drawn = [0, 0.1, 0.2, 0.3];
    assert.deepEqual(destinations.inOrder(), [SERVICE, A, B, C]);
  });

  it('stay with the controller that answered, until the Service is tried again', () => {
    destinations.failed(SERVICE);
    destinations.answered(C);
    drawn = [0, 0.1, 0.2, 0.3];
    assert.deepEqual(destinations.inOrder(), [C, A, B, SERVICE]);
    clock.pass(60_000);
    assert.deepEqual(destinations.inOrder()[0], SERVICE);
  });

  it('do not avoid what has answered since', () => {
    destinations.failed(SERVICE);
    destinations.answered(SERVICE);
    assert.deepEqual(destinations.inOrder()[0], SERVICE);
  });

  it('are at most 16', () => {
    known = Array.from({ length: 40 }, (_, i) => ({ host: `10.1.0.${i}`, port: 8443 }));
    assert.equal(destinations.inOrder().length, 16);
  });

  it('are read from URLs, and written', () => {
    const texts = ['https://a.example', 'https://10.1.0.1:8443', 'https://[fd00::3]:9000'];
    const found = texts.map((text) => toText(destinationOf(new URL(text))));
    assert.deepEqual(found, ['a.example:443', '10.1.0.1:8443', '[fd00::3]:9000']);
  });
});
