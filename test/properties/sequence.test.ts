import assert from 'node:assert/strict';
import fc from 'fast-check';
import { receive } from '../../agent/receive/receive.ts';
import { rulesetText } from '../../agent/render/nft-text.ts';
import type { NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import { type ClusterObject, type ClusterObjects, NO_OBJECTS } from '../../apis/objects.ts';
import { identityOf } from '../../apis/validate/metadata.ts';
import { type Message, snapshot } from '../../apis/wire.ts';
import { compile } from '../../controller/compile/compile.ts';
import { withAcceptedAddresses } from '../../controller/index/accepted-addresses.ts';
import { nodeView } from '../../controller/publish/node-view.ts';
import { assemble } from '../../controller/watch/assemble.ts';
import { assembler } from '../../controller/watch/assembler.ts';
import type { FileContent } from '../../controller/watch/content.ts';
import { keepObjects } from '../../controller/watch/keep-objects.ts';
import { type LastValidVersions, NO_LAST_VALID } from '../../controller/watch/last-valid-versions.ts';
import { NO_CACHE, parseManifest, type ReadFile } from '../../controller/watch/read-file.ts';
import { objectsToYaml, scenario } from '../generate/scenario.ts';
import { renderBoth, toConfig, toState } from './pipeline.ts';
import { check } from './runs.ts';

/** One thing that happens to the manifests directory: a file is written, or removed (null). */
interface FileEvent {
  readonly file: string;
  readonly objects: readonly object[] | null;
}

const SCENARIOS = fc.constantFrom(1, 4, 8).chain((size) => scenario({ size, flows: 0 }));
const FILES = ['a.yaml', 'b.yaml', 'c.json', 'sub/d.yml'];

describe('the same objects', function () {
  this.timeout(0);

  it('give the same bytes in any order', function () {
    const shuffled = SCENARIOS.chain((drawn) =>
      fc.tuple(fc.constant(drawn), fc.shuffledSubarray(drawn.objects, { minLength: drawn.objects.length })),
    );
    check(this, 100, shuffled, ([{ objects, node, config: written }, other]) => {
      const config = toConfig(written);
      const [first, second] = [objects, other].map((list) => toState(list, node));
      assert.ok(first !== undefined && second !== undefined);
      assert.deepEqual(compiledText(second), compiledText(first));
      assert.equal(bytes(second, config), bytes(first, config));
    });
  });

  it('give the same bytes after any history of file events', function () {
    const histories = SCENARIOS.chain((drawn) =>
      fc.record({ drawn: fc.constant(drawn), events: events(drawn.objects) }),
    );
    check(this, 60, histories, ({ drawn: { objects, node, config: written }, events: happened }) => {
      const config = toConfig(written);
      const found = replay(happened, Object.keys(config.interfaceGroups));
      const state = nodeView(compile(withAcceptedAddresses(found)), node);
      assert.equal(bytes(state, config), bytes(toState(objects, node), config));
    });
  });

  it('give the same bytes after transfer over the stream', function () {
    check(this, 60, SCENARIOS, ({ objects, node, config: written }) => {
      const config = toConfig(written);
      // An annotation's platform is not sent: an agent asks its kernel.
      const { platform: _, ...state } = toState(objects, node);
      const lines = [...snapshot(state)].map((message) => JSON.stringify(message));
      const received = receive(lines.map((line) => JSON.parse(line) as Message));
      assert.equal(bytes(received, config), bytes(state, config));
      assert.deepEqual(
        [...snapshot(received)].map((message) => JSON.stringify(message)),
        lines,
      );
    });
  });

  it('are rejected if a line of the stream is missing', function () {
    const cut = SCENARIOS.chain((drawn) => fc.tuple(fc.constant(drawn), fc.nat()));
    check(this, 60, cut, ([{ objects, node }, place]) => {
      const messages = [...snapshot(toState(objects, node))];
      assert.throws(() => receive(messages.toSpliced(place % messages.length, 1)));
    });
  });
});

function bytes(state: NodeState, config: Config): string {
  return Object.values(renderBoth(state, config)).map(rulesetText).join('\n');
}

/** All of a state, sets as sorted lists. */
function compiledText(state: NodeState): string[] {
  return [...snapshot(state)].map((message) => JSON.stringify(message));
}

/**
 * Any writes, repeated ones among them, of any part of the objects, then each file with its part of
 * them, in any order. On the way objects are there twice, or not yet, or no longer.
 */
function events(objects: readonly object[]): fc.Arbitrary<FileEvent[]> {
  const some = fc.subarray([...objects], { maxLength: Math.min(objects.length, 12) });
  const event = fc.record({ file: fc.constantFrom(...FILES), objects: fc.option(some) });
  const before = fc.array(event, { maxLength: 8 });
  const places = fc.array(fc.constantFrom(...FILES), {
    minLength: objects.length,
    maxLength: objects.length,
  });
  const order = fc.shuffledSubarray(FILES, { minLength: FILES.length });
  return fc.tuple(before, places, order, fc.boolean()).map(([history, place, files, twice]) => {
    const last = files.map((file) => ({
      file,
      objects: objects.filter((_, i) => place[i] === file),
    }));
    return [...history, ...last, ...(twice ? last : [])];
  });
}

/** What the file source does with events (controller/watch), without files. */
function replay(happened: readonly FileEvent[], interfaceGroups: readonly string[]): ClusterObjects {
  const files = new Map<string, ReadFile>();
  const next = assembler();
  let lastValidVersions: LastValidVersions = NO_LAST_VALID;
  let objects = NO_OBJECTS;
  for (const { file, objects: written } of happened) {
    if (written === null) files.delete(file);
    else files.set(file, read(file, written, files.get(file)));
    const contents: FileContent[] = [...files.values()].map(({ content }) => content);
    const valid = new Map(
      Object.values(objects).flatMap((list: readonly ClusterObject[]) =>
        list.map((object) => [identityOf(object), object] as const),
      ),
    );
    const lastValid = (identity: string) => valid.get(identity);
    const input = { contents, lastValidVersions, unreadable: [], lastValid, interfaceGroups };
    const assembled = next(input);
    const whole = assemble(input);
    assert.deepEqual(assembled.objects, whole.objects);
    assert.deepEqual(assembled.problems, whole.problems);
    assert.deepEqual(assembled.lastValidVersions, whole.lastValidVersions);
    ({ lastValidVersions, objects } = assembled);
  }
  return objects;
}

function read(file: string, objects: readonly object[], before: ReadFile | undefined): ReadFile {
  const text = file.endsWith('.json')
    ? JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects })
    : objectsToYaml(objects);
  const { content, cache } = parseManifest(file, { bytes: Buffer.from(text) }, before?.cache ?? NO_CACHE, {});
  return { content: keepObjects(content, before?.content ?? null), cache };
}
