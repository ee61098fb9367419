/* planted.cc: small programs with one memory bug each, as in planted.c.
 *
 *   leak       a base class has no virtual destructor, so the members of the derived class are lost
 *   temporary  a function takes its vector by value
 *   double     an index has copies of the names that the list of records has already
 *   cache      results are remembered in a map that is never cleaned, and that the end of the program destroys */
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

static bool is_planted;

/* ---- leak ---- */

struct Shape {
    virtual double area() const = 0;
    void dispose() {
        if (is_planted) {
            ::operator delete(this); /* as `delete shape` without a virtual destructor */
        } else {
            delete this;
        }
    }
    virtual ~Shape() = default;
};

class Polygon : public Shape {
  public:
    explicit Polygon(int corners) {
        for (int i = 0; i < corners; i++) {
            points_.push_back({i * 0.5, i * i * 0.25}); // PLANTED leak
        }
    }
    double area() const override {
        double sum = 0;
        for (size_t i = 1; i < points_.size(); i++) {
            sum += points_[i - 1].x * points_[i].y - points_[i].x * points_[i - 1].y;
        }
        return sum / 2;
    }

  private:
    struct Point {
        double x, y;
    };
    std::vector<Point> points_;
};

static double leak() {
    double sum = 0;
    for (int i = 0; i < 1500; i++) {
        Shape *shape = new Polygon(3 + i % 9);
        sum += shape->area();
        shape->dispose();
    }
    return sum;
}

/* ---- temporary ---- */

[[gnu::noinline]] static double mean_by_value(std::vector<double> values) {
    double sum = 0;
    for (double value : values) {
        sum += value;
    }
    return sum / static_cast<double>(values.size());
}

[[gnu::noinline]] static double mean_by_reference(const std::vector<double> &values) {
    double sum = 0;
    for (double value : values) {
        sum += value;
    }
    return sum / static_cast<double>(values.size());
}

static double temporary() {
    std::vector<double> window(64, 1.0);
    std::map<int, std::string> log;
    double sum = 0;
    for (int i = 0; i < 20000; i++) {
        window[static_cast<size_t>(i) % window.size()] = i;
        if (is_planted) {
            sum += mean_by_value(window); // PLANTED temporary
        } else {
            sum += mean_by_reference(window);
        }
        log[i % 100] = "step " + std::to_string(i) + " of the measurement";
    }
    return sum;
}

/* ---- double ---- */

struct Record {
    std::string name;
    int value;
};

static double twice() {
    std::vector<Record> records;
    double sum = 0;
    for (int i = 0; i < 15000; i++) {
        records.push_back(
            {"customer number " + std::to_string(i * 7) + " in the first district", i});
    }
    if (is_planted) {
        std::map<std::string, Record> by_name;
        for (const Record &record : records) {
            by_name[record.name] = record; // PLANTED double
        }
        sum = by_name.begin()->second.value;
    } else {
        std::unordered_map<std::string_view, size_t> by_name;
        for (size_t i = 0; i < records.size(); i++) {
            by_name[records[i].name] = i;
        }
        sum = static_cast<double>(by_name.size());
    }
    return sum;
}

/* ---- cache ---- */

struct Tile {
    std::vector<unsigned char> pixels;
};

class Renderer {
  public:
    const Tile &tile(int x, int y) {
        const auto key = std::make_pair(x, y);
        const auto found = tiles_.find(key);
        if (found != tiles_.end()) {
            return found->second;
        }
        if (!is_planted && tiles_.size() >= 64) {
            tiles_.erase(tiles_.begin());
        }
        Tile tile;
        tile.pixels.assign(256, static_cast<unsigned char>(x ^ y)); // PLANTED cache
        return tiles_.emplace(key, std::move(tile)).first->second;
    }

  private:
    std::map<std::pair<int, int>, Tile> tiles_;
};

static Renderer renderer;

static double cache() {
    double sum = 0;
    for (int i = 0; i < 8000; i++) {
        sum += renderer.tile(i % 97, i / 97).pixels[static_cast<size_t>(i) % 256];
        sum += static_cast<double>(
            std::make_unique<std::string>(std::to_string(i) + " tiles are drawn so far")->size());
    }
    return sum;
}

int main(int argc, char **argv) {
    const std::string name = argc > 1 ? argv[1] : "";
    is_planted = argc > 2;
    const double result = name == "leak"        ? leak()
                          : name == "temporary" ? temporary()
                          : name == "double"    ? twice()
                                                : cache();
    std::printf("%g\n", result);
    return 0;
}
