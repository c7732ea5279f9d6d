import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseAllDocuments, parseDocument } from 'yaml';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { checkEgressFlows, egressAnswered } from '../cases/egress-flows.ts';
import type { Inputs } from '../cases/inputs.ts';
import { hosted } from '../cli/command-host.ts';
import { createFolder, type Folder } from '../cli/folder.ts';
import { type Fence, parseMarkdown, replaceFences, type Section } from '../docs/markdown.ts';
import { toEgressInput } from '../properties/egress-agree.ts';

const pages = readdirSync(import.meta.dirname).filter((name) => name.endsWith('.md') && name !== 'README.md');
const update = process.env.NODEWALL_UPDATE_GOLDENS === '1';

let folder: Folder;
before(async () => {
  folder = await createFolder();
});
after(() => folder.close());

interface Found {
  readonly migrated: string;
  readonly problems: string;
  /** The objects of nodewall.io, and those of the input that are of no other system. */
  readonly objects: readonly object[];
}

/** The command's answer to a section, without names of files and the line of counts. */
async function migrate(input: string): Promise<Found> {
  const path = await folder.write('case.yaml', input);
  const yaml = await hosted('migrate', '--manifests', path);
  const plain = (text: string): string => text.replaceAll(`${path}:`, '');
  const problems = plain(yaml.stderr).split('\n').slice(0, -2);
  assert.equal(yaml.status, problems.some((line) => !/: (warning|notice): /.test(line)) ? 1 : 0);
  const json = JSON.parse((await hosted('migrate', '--manifests', path, '-o', 'json')).stdout);
  const translated = parseAllDocuments(yaml.stdout).map((document) => document.toJS() as object);
  assert.deepEqual(json.items, translated);
  assert.equal(json.problems.length, problems.length);
  const others = input
    .split(/^---\n/m)
    .map((text) => parseDocument(text).toJS() as object)
    .filter((object) => !JSON.stringify(object).includes('spidernet.io/v1'));
  return { migrated: plain(yaml.stdout), problems: problems.join('\n'), objects: [...others, ...translated] };
}

function fenceOf({ fences }: Section, info: string): Fence | undefined {
  return fences.find((fence) => fence.info === info);
}

function toInputs(objects: readonly object[]): Inputs {
  const read = { objects: toEgressInput(objects), config: DEFAULT_CONFIG, raw: { objects, config: {} } };
  return read as unknown as Inputs;
}

describe('nodewall migrate', function () {
  this.timeout(60_000);

  for (const page of pages) {
    const path = join(import.meta.dirname, page);
    const sections = parseMarkdown(page, readFileSync(path, 'utf8')).filter(({ level }) => level === 2);
    if (update) {
      it(`${page} is rewritten`, async () => {
        const texts = new Map<number, string>();
        for (const section of sections) {
          const found = await migrate(fenceOf(section, 'yaml')?.text ?? '');
          for (const info of ['migrated', 'problems'] as const)
            texts.set(fenceOf(section, info)?.line ?? 0, found[info]);
          const flows = fenceOf(section, 'flows egress');
          if (flows !== undefined) texts.set(flows.line, egressAnswered(flows.text, toInputs(found.objects)));
        }
        writeFileSync(path, replaceFences(readFileSync(path, 'utf8'), texts));
      });
      continue;
    }
    describe(page, () => {
      for (const section of sections) {
        it(section.heading, async () => {
          const found = await migrate(fenceOf(section, 'yaml')?.text ?? '');
          for (const info of ['migrated', 'problems'] as const)
            assert.equal(
              found[info].trimEnd(),
              fenceOf(section, info)?.text.trimEnd(),
              `${page}:${section.line}`,
            );
          const flows = fenceOf(section, 'flows egress');
          if (flows === undefined) return;
          const inputs = toInputs(found.objects);
          assert.equal(egressAnswered(flows.text, inputs), flows.text);
          checkEgressFlows(flows, inputs, page);
        });
      }
    });
  }
});
