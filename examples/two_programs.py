"""Two entry points over the same variables, without torch: IR text in, a callback stream, a variable read and set.

The program counts what a host function gives it. `main` takes three elements from the function and adds them to a total;
`reset` sets the total to zero. Run it with: python examples/two_programs.py
"""

import numpy

import ipu_core

PROGRAM = """
variable @total: f32[] {initial=dense<f32[]: 0.0>}
stream @numbers: f32[]
stream @mean: f32[] {direction="device_to_host"}
entry main = @main
entry reset = @reset

graph @main() -> () {
  %total = variable.read() {variable=@total} : f32[]
  %sum = loop(%total) {body=@add_one, trip=3, carried=1} : f32[]
  variable.assign(%sum) {variable=@total}
  %three = constant() {value=dense<f32[]: 3.0>} : f32[]
  %mean = div(%sum, %three) : f32[]
  host_store(%mean) {stream=@mean}
  return
}
graph @add_one(%i: i32[], %sum: f32[]) -> f32[] {
  %x = host_load() {stream=@numbers} : f32[]
  %next = add(%sum, %x) : f32[]
  return %next
}
graph @reset() -> () {
  %zero = constant() {value=dense<f32[]: 0.0>} : f32[]
  variable.assign(%zero) {variable=@total}
  return
}
"""


def main():
    given = iter(range(1, 100))
    session = ipu_core.compile(PROGRAM, source="two_programs.py")
    session.bind("numbers", lambda replica: numpy.float32(next(given)))
    print("entry points:", ", ".join(session.entry_points))
    print("mean of 1, 2, 3:", float(session.run()["mean"]))
    print("total:", float(session.read("total")))
    session.run(entry="reset")
    print("total after reset:", float(session.read("total")))
    session.write("total", numpy.float32(100))
    print("mean of 100 and 4, 5, 6 over three:", round(float(session.run()["mean"]), 3))


if __name__ == "__main__":
    main()
