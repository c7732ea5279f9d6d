import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PLACES, PROCESSES, picture, STAGES } from './places.ts';
import { filesBelow, importsOf, ROOT, readSource } from './source-file.ts';
import { isWithin } from './zones.ts';

const SOURCES = filesBelow('.').filter((path) => path.endsWith('.ts') && !path.endsWith('.test.ts'));
const PICTURE = join(ROOT, 'docs/architecture.svg');

describe('the picture of the architecture', () => {
  it('has each folder of controller and agent once', () => {
    const folders = SOURCES.flatMap((path) => /^(controller|agent)\/[^/]+(?=\/)/.exec(path)?.[0] ?? []);
    const shown = [
      ...STAGES.flatMap((one) => one.folders),
      ...PLACES.map(({ folder }) => folder),
      ...PROCESSES,
    ];
    assert.deepEqual(shown.sort(), [...new Set(folders)].sort());
  });

  it('draws arrows that no import turns round: no stage knows a later one', () => {
    const order = STAGES.flatMap(({ folders }) => folders);
    const wrong = SOURCES.flatMap((path) => {
      const from = order.findIndex((folder) => isWithin(folder, path));
      const later = from < 0 ? [] : order.slice(from + 1);
      return importsOf(path, readSource(path)).filter(
        (target) => target !== null && later.some((folder) => isWithin(folder, target)) && !isTool(target),
      );
    });
    assert.deepEqual(wrong, []);
  });

  it('has room for its words', () => {
    const long = PLACES.filter(({ does, folder }) => does.length > 29 || folder.length > 24);
    assert.deepEqual(long, []);
  });

  it('is drawn from the table; NODEWALL_UPDATE_GOLDENS=1 draws it again', () => {
    if (process.env.NODEWALL_UPDATE_GOLDENS === '1') writeFileSync(PICTURE, picture());
    assert.equal(readFileSync(PICTURE, 'utf8'), picture());
  });
});

/** The index of labels serves the objects of stage 1 too. */
const isTool = (path: string): boolean => isWithin('controller/index', path);
