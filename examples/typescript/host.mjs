#!/usr/bin/env node
// @ts-check
/**
 * A host of innerd for Node 20, without a package and without a build step: the
 * types stand in comments, which `tsc --checkJs` and editors read.
 *
 * It posts a turn, reads its events, lends the agent a function of its own, and
 * goes on after a broken connection from the last event that it has seen, so
 * that each comes once.
 *
 *     INNERD_URL=http://127.0.0.1:18100 INNERD_KEY=... ./host.mjs "How warm is it in Oslo?"
 *
 * @typedef {{id?: number, ts?: number, type: string, data: any}} Event
 * @typedef {{name: string, description: string, parameters: object}} Schema
 * @typedef {{schema: Schema, run: (args: any, signal: AbortSignal) => Promise<unknown> | unknown}} Tool
 * @typedef {{role: string, content: string}} Message
 * @typedef {{tools?: Tool[], contextId?: string, metadata?: Record<string, unknown>, signal?: AbortSignal}} RunOptions
 */
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'

/** An answer that trying again will not change. */
export class Failed extends Error {}

export class Host {
  headTimeout = 3_000 // ms until an answer begins, which takes the server less than one; Node's fetch waits for ever where a connection is closed before it is used
  readTimeout = 60_000 // ms; a heartbeat comes every 15 s
  giveUp = 300_000 // ms without a new event

  /** @param {string} url @param {string} [key] */
  constructor(url, key = '') {
    this.url = url.replace(/\/+$/, '')
    /** @type {Record<string, string>} */
    this.headers = { 'content-type': 'application/json' }
    if (key) this.headers.authorization = `Bearer ${key}`
  }

  /**
   * One request, whose status is checked.
   * @param {string} method @param {string} path @param {unknown} [body]
   * @param {Record<string, string>} [headers] @param {AbortSignal} [signal]
   */
  async request(method, path, body, headers = {}, signal) {
    const res = await fetch(this.url + path, {
      method, signal, redirect: 'manual', headers: { ...this.headers, ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    })
    if (res.ok) return res
    const words = `HTTP ${res.status}: ${(await res.text()).slice(0, 2000)}`
    throw [429, 500, 502, 503, 504].includes(res.status) ? new Error(words) : new Failed(words)
  }

  /**
   * A call with a short answer, tried until it comes: answers may be given twice.
   * @param {string} method @param {string} path @param {unknown} [body] @returns {Promise<any>}
   */
  async call(method, path, body) {
    for (const pause of [100, 500, 2000, 5000, null]) {
      try {
        return await (await this.request(method, path, body, {}, AbortSignal.timeout(this.headTimeout))).json()
      } catch (error) {
        if (error instanceof Failed || pause === null) throw error
        await sleep(pause * (0.5 + Math.random() / 2))
      }
    }
  }

  /**
   * Starts a run and yields its events, each once, to its end. A call of a tool
   * runs while the stream is read on. Leaving the loop early cancels the run.
   * @param {Message[]} messages @param {RunOptions} [options]
   * @returns {AsyncGenerator<Event, void, void>}
   */
  async *run(messages, { tools = [], contextId = '', metadata = {}, signal } = {}) {
    const task = `js-${randomBytes(12).toString('hex')}` // ours, so that the start can be repeated
    const start = { context_id: contextId, messages, metadata: { ...metadata, task_id: task, native_tool_schemas: tools.map((t) => t.schema) } }
    const ended = new AbortController() // tells the tools
    let last = 0, pause = 50, since = Date.now(), over = false, started = false
    try {
      while (!over) {
        const silent = new AbortController()
        const tooLong = () => silent.abort(new Error('nothing came for too long'))
        let watch = setTimeout(tooLong, this.headTimeout)
        const either = signal ? AbortSignal.any([signal, silent.signal]) : silent.signal
        try {
          const res = last > 0
            ? await this.request('GET', `/tasks/${task}/events`, undefined, { 'last-event-id': String(last) }, either)
            : await this.request('POST', '/message:stream', start, {}, either)
          started = true
          if (res.status === 204) return // it has ended, and we have seen all of it
          clearTimeout(watch)
          watch = setTimeout(tooLong, this.readTimeout)
          for await (const event of frames(res)) {
            watch.refresh()
            const id = event.id ?? 0
            if (id > 0 && id <= last) continue
            if (id > 0) [last, pause, since] = [id, 50, Date.now()]
            if (event.type === 'tool.execution_request') void this.answer(tools, event.data, ended.signal)
            over ||= event.type === 'session.end'
            yield event
          }
          if (!over) throw new Error('the stream ended before the run') // a run that has ended says so
        } catch (error) {
          if (over) return
          if (error instanceof Failed || signal?.aborted || Date.now() - since > this.giveUp) throw error
          console.error(`[resumed after event ${last}: ${/** @type {Error} */ (error).message}]`)
          await sleep(pause * (0.5 + Math.random() / 2))
          pause = Math.min(pause * 2, 5000)
        } finally {
          clearTimeout(watch)
          silent.abort() // closes a connection that is left
        }
      }
    } finally {
      ended.abort()
      if (started && !over) await this.call('POST', `/tasks/${task}:cancel`, { reason: 'the host left' }).catch(() => {})
    }
  }

  /**
   * Runs a function that the agent called, and delivers its result.
   * @param {Tool[]} tools @param {{tool_call_id: string, tool_name: string, arguments: any}} request @param {AbortSignal} signal
   */
  async answer(tools, request, signal) {
    let result
    try {
      const tool = tools.find((t) => t.schema.name === request.tool_name)
      if (!tool) throw new Error(`there is no tool ${request.tool_name}`)
      const out = await tool.run(request.arguments, signal)
      result = { result: typeof out === 'string' ? out : JSON.stringify(out) ?? '' }
    } catch (error) { // whatever it is, the agent reads it
      result = { result: String(error), is_error: true }
    }
    await this.call('POST', `/tools/${request.tool_call_id}/result`, result).catch((error) => console.error(`[result not delivered: ${error}]`))
  }
}

/**
 * Yields the events of a body. Each is one line of ASCII, so that nothing more
 * of SSE is needed than the prefix of its data.
 * @param {Response} res @returns {AsyncGenerator<Event, void, void>}
 */
async function* frames(res) {
  if (!res.body) return
  const text = new TextDecoder()
  let rest = ''
  // @ts-ignore: Node's streams can be iterated; the types of browsers don't say so
  for await (const chunk of res.body) {
    const lines = (rest + text.decode(chunk, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      if (line.startsWith('data: ') && line !== 'data: [DONE]') yield JSON.parse(line.slice(6))
    }
  }
  if (rest !== '') throw new Error('the stream was cut in a line')
}

/** @type {Tool} */
export const weather = {
  schema: {
    name: 'weather',
    description: 'The temperature of now',
    parameters: { type: 'object', properties: { city: { type: 'string', description: 'name of a city' } }, required: ['city'] },
  },
  run({ city }) {
    if (city === 'Atlantis') throw new Error('there is no such city')
    return `${city.length} degrees in ${city}`
  },
}

async function main() {
  const host = new Host(process.env.INNERD_URL ?? 'http://127.0.0.1:18100', process.env.INNERD_KEY)
  const metadata = process.env.INNERD_BACKEND ? { backend: process.env.INNERD_BACKEND } : {}
  for await (const { type, data } of host.run([{ role: 'user', content: process.argv[2] }], { tools: [weather], contextId: 'typescript', metadata })) {
    if (type === 'assistant.message_delta') process.stdout.write(data.delta)
    if (type === 'tool.execution_request') console.error(`[${data.tool_name} ${JSON.stringify(data.arguments)}]`)
    if (type === 'session.error') {
      console.error(data.message)
      process.exitCode = 1
    }
  }
  process.stdout.write('\n')
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main()
