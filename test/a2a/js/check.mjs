// What both drivers share: named checks, printed as lines of JSON.
import { createServer } from 'node:http';

console.debug = () => {}; // the SDK's own notes are not lines of ours

export const options = JSON.parse(process.argv[2]);

export function assert(ok, why) {
  if (!ok) throw new Error(why ?? 'not so');
}

// canon is JSON in which the order of names does not count.
const canon = (v) => JSON.stringify(v, (_, x) => (x && typeof x === 'object' && !Array.isArray(x) ? Object.fromEntries(Object.entries(x).sort()) : x));

export function equal(got, want, what = 'value') {
  const g = canon(got), w = canon(want);
  if (g !== w) throw new Error(`${what}: got ${g}, want ${w}`);
}

export async function check(transport, name, f) {
  const line = { transport, name, ok: true };
  try {
    await Promise.race([
      f(),
      new Promise((_, no) => setTimeout(() => no(new Error('it took longer than a minute')), 60000).unref()), // it hangs
    ]);
  } catch (e) {
    line.ok = false;
    line.why = String(e?.stack ?? e).split('\n').slice(0, 4).join(' | ');
  }
  console.log(JSON.stringify(line));
}

// refused says that a call fails with an error of this name.
export async function refused(call, name) {
  let got;
  try {
    const v = await call();
    if (v && v[Symbol.asyncIterator]) for await (const _ of v); // a stream fails when it is read
  } catch (e) {
    got = e;
  }
  assert(got, 'the call was not refused');
  const names = [got.name, got.constructor?.name, got.reason, got.errorInfo?.reason, String(got.code), got.message].map(String);
  assert(names.some((n) => n.includes(name)), `refused with ${names.join(' / ')}, want ${name}`);
  return got;
}

// first gives a stream on, and is told when its first event has come.
export async function* first(stream, come) {
  for await (const e of stream) {
    come();
    yield e;
  }
}

// webhook receives notifications.
export async function webhook() {
  const got = [];
  let wake = () => {};
  const server = createServer((req, res) => {
    let body = '';
    req.on('data', (d) => (body += d));
    req.on('end', () => {
      got.push({ headers: req.headers, body: JSON.parse(body) });
      res.end();
      wake();
    });
  });
  await new Promise((yes) => server.listen(0, '127.0.0.1', yes));
  return {
    url: `http://127.0.0.1:${server.address().port}/hook`,
    got,
    async until(f) {
      while (!got.some(f)) await new Promise((yes) => (wake = yes));
    },
    close: () => server.close(),
  };
}

let n = 0;
export const id = (prefix) => `${prefix}-${process.pid}-${++n}`;
