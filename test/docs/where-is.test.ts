import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { brokenLinks, relativeLinks } from './links.ts';

const root = join(import.meta.dirname, '..', '..');
const PATH = 'docs/where-is.md';
const LEAST_QUESTIONS = 20;

/** A question is bold and ends with a question mark; its answer is the rest of the paragraph. */
interface Question {
  readonly question: string;
  readonly answer: string;
}

describe(PATH, () => {
  const text = readFileSync(join(root, PATH), 'utf8');
  const questions = questionsOf(text);

  it(`answers at least ${LEAST_QUESTIONS} questions, each once`, () => {
    assert.ok(questions.length >= LEAST_QUESTIONS, `${questions.length} questions`);
    assert.equal(new Set(questions.map(({ question }) => question)).size, questions.length);
  });

  it('links each answer to a file or folder that is there', () => {
    const withoutFile = questions.filter(({ answer }) => relativeLinks(answer).length === 0);
    assert.deepEqual(withoutFile, []);
    assert.deepEqual(brokenLinks(root, PATH, text), []);
  });

  it('names a file in each answer, not a folder alone', () => {
    const isFile = (link: string): boolean => statSync(join(root, 'docs', link)).isFile();
    assert.deepEqual(
      questions.filter(({ answer }) => !relativeLinks(answer).some(isFile)),
      [],
    );
  });

  it('has the expected form', () => {
    assert.deepEqual(questionsOf('# Page\n\n**Where is\nit?** In [a](a.ts).\n\n**No question.** In b.\n'), [
      { question: 'Where is it?', answer: 'In [a](a.ts).' },
    ]);
    assert.deepEqual(brokenLinks(root, PATH, '[a](../README.md#x) [b](#c) [d](https://e) [f](nowhere.ts)'), [
      'nowhere.ts',
    ]);
  });
});

function questionsOf(text: string): Question[] {
  return text.split('\n\n').flatMap((paragraph): Question[] => {
    const [, question, answer] = /^\*\*([^*]+\?)\*\*([\s\S]*)$/.exec(paragraph.trim()) ?? [];
    if (question === undefined || answer === undefined) return [];
    return [{ question: question.replaceAll('\n', ' '), answer: answer.trim() }];
  });
}
